"""What can go wrong, as one sentence, a stable code and an exit code; never as a stack trace.

Scripts rely on the exit codes: a code may gain causes, and never changes its meaning.
"""

from enum import IntEnum
from typing import Any

import httpx

from leasehold.called import PROGRAM


class Exit(IntEnum):
    OK = 0
    # The platform refused, or a check found something.
    NEGATIVE = 1
    # The command line or a document is wrong.
    USAGE = 2
    UNAUTHENTICATED = 3
    NOT_FOUND = 4
    # Something does not answer; trying again later may help.
    UNAVAILABLE = 5
    # A mistake in the command line itself.
    BUG = 70
    INTERRUPTED = 130


class Failure(Exception):
    """Ends the command; ``hint`` says what to do next."""

    def __init__(
        self, message: str, exit_code: Exit, *, code: str = "", hint: str = "", **details: str
    ) -> None:
        super().__init__()
        self.message = message
        self.exit_code = exit_code
        self.code = code or exit_code.name
        self.hint = hint
        self.details = {name: value for name, value in details.items() if value}

    def __str__(self) -> str:
        return self.message

    def document(self) -> dict[str, Any]:
        """The failure for programs."""
        document: dict[str, Any] = {"code": self.code, "detail": self.message, **self.details}
        if self.hint:
            document["next"] = self.hint
        return {**document, "exit_code": int(self.exit_code)}


_EXITS = {
    401: Exit.UNAUTHENTICATED,
    403: Exit.NEGATIVE,
    404: Exit.NOT_FOUND,
    409: Exit.NEGATIVE,
    412: Exit.NEGATIVE,
    429: Exit.UNAVAILABLE,
}

_HINTS = {
    "AMOUNT": "give a decimal amount, such as 100.00",
    "CREDENTIAL_REVOKED": f"log in with a credential that is in force: {PROGRAM} login",
    "ENVELOPE_NOT_FOUND": "check the tenant's id; a new tenant has its envelope after a moment",
    "IDEMPOTENCY_CONFLICT": "use a new --key, or none, for another request",
    "INVALID_TOKEN": f"log in again: {PROGRAM} login",
    "INVOICE_NOT_FOUND": f"{PROGRAM} invoice list shows your invoices",
    "LEASE_NOT_FOUND": f"{PROGRAM} leases shows your leases",
    "NOTHING_TO_BILL": f"leases are billed once they have ended; {PROGRAM} cost shows them",
    "PERMISSION_DENIED": f"choose a profile that may: {PROGRAM} profiles lists yours",
    "PLATFORM_OWNED": "remove the field from the document",
    "PLATFORM_OWNED_FIELD": "remove the field from the document",
    "PRECONDITION_FAILED": "somebody changed it meanwhile; look at it and try again",
    "SOURCE_NOT_FOUND": f"{PROGRAM} sources lists them",
    "TENANT": "name the tenant with --tenant",
    "TENANT_SUSPENDED": "ask the operator of the platform why",
    "UNKNOWN_FIELD": "remove the field, or correct its spelling",
    "UNKNOWN_PROJECT": f"open it: {PROGRAM} project open NAME; {PROGRAM} whoami lists yours",
    "WORKLOAD_NOT_FOUND": f"{PROGRAM} ps lists your workloads",
}
_HINTS_BY_EXIT = {
    Exit.UNAUTHENTICATED: f"log in: {PROGRAM} login",
    Exit.USAGE: f"correct the request; {PROGRAM} COMMAND --help explains it",
    Exit.UNAVAILABLE: "try again in a moment",
}


def exit_of(status: int) -> Exit:
    """The exit code for an HTTP status that is not a success."""
    if status >= 500:
        return Exit.UNAVAILABLE
    return _EXITS.get(status, Exit.USAGE)


def failure_of(response: httpx.Response) -> Failure:
    """What a problem document says, or the status alone if there is none."""
    problem = _document(response)
    exit_code = exit_of(response.status_code)
    code = str(problem.get("code", "")) or f"HTTP_{response.status_code}"
    return Failure(
        str(problem.get("detail", "")) or f"the gateway answered {response.status_code}",
        exit_code,
        code=code,
        hint=_HINTS.get(code) or _HINTS_BY_EXIT.get(exit_code, ""),
        field=str(problem.get("field", "")),
        instance=str(problem.get("instance", "")),
    )


def _document(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
