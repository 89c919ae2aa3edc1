"""The ways a command can fail, independent of transport.

* ServiceError
  - Invalid          the request makes no sense in any state
  - NotFound         the thing named does not exist, or not for this caller
  - Refused          the thing exists, and its state forbids the command
  - Conflict         an idempotency key was reused with another payload
  - Denied           the caller may not do this
  - Overloaded       the service sheds load; nothing was done, try again later
  - Unavailable      the service cannot decide now; nothing is known to be done
  - CursorMoved      an event of another service is not the next one to apply

``chassis.rpc`` maps each to one gRPC status and the gateway each to one HTTP status;
nothing else knows about statuses. ``code`` is stable and part of the API.
"""

from typing import ClassVar


class ServiceError(Exception):
    """Base of every expected failure. Anything else that escapes is a bug."""

    default_code: ClassVar[str] = "ERROR"

    def __init__(self, message: str, *, code: str = "", **details: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.details = details


class Invalid(ServiceError):
    default_code = "INVALID"


class NotFound(ServiceError):
    default_code = "NOT_FOUND"


class Refused(ServiceError):
    default_code = "REFUSED"


class Conflict(ServiceError):
    default_code = "IDEMPOTENCY_CONFLICT"


class Denied(ServiceError):
    default_code = "PERMISSION_DENIED"


class Overloaded(ServiceError):
    default_code = "OVERLOADED"


class Unavailable(ServiceError):
    default_code = "UNAVAILABLE"


class CursorMoved(ServiceError):
    default_code = "CURSOR_MOVED"
