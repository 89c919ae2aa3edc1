"""Errors as RFC 9457 problem documents. ``code`` is the contract; the rest is for people.

Every answer that is not a success passes through here, so that no stack, no foreign id and no
framework's wording reaches a client.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar

import orjson
from starlette.responses import Response

from chassis.errors import (
    Conflict,
    Denied,
    Invalid,
    NotFound,
    Overloaded,
    Refused,
    ServiceError,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "retry_after_seconds"


class HttpError(ServiceError):
    """A failure that only HTTP knows."""

    status: ClassVar[int]


class Unauthenticated(HttpError):
    default_code = "UNAUTHENTICATED"
    status = 401


class MethodNotAllowed(HttpError):
    default_code = "METHOD_NOT_ALLOWED"
    status = 405


class TooSlow(HttpError):
    default_code = "REQUEST_TIMEOUT"
    status = 408


class PreconditionFailed(HttpError):
    default_code = "PRECONDITION_FAILED"
    status = 412


class TooLarge(HttpError):
    default_code = "TOO_LARGE"
    status = 413


class WrongMediaType(HttpError):
    default_code = "MEDIA_TYPE"
    status = 415


class PreconditionRequired(HttpError):
    default_code = "PRECONDITION_REQUIRED"
    status = 428


class Incident(HttpError):
    """A bug of ours; the log has the rest under the same request id."""

    default_code = "INTERNAL"
    status = 500


_STATUS: dict[type[ServiceError], int] = {
    Invalid: 400,
    Denied: 403,
    NotFound: 404,
    Refused: 409,
    Conflict: 422,
    Overloaded: 429,
    Unavailable: 503,
}
STATUSES = sorted({*_STATUS.values(), *(kind.status for kind in HttpError.__subclasses__())})


def status_of(error: ServiceError) -> int:
    if isinstance(error, HttpError):
        return error.status
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def problem(error: ServiceError, instance: str) -> Response:
    status = status_of(error)
    details = dict(error.details)
    body = {
        "type": f"urn:leasehold:problem:{error.code.lower().replace('_', '-')}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error.message,
        "instance": instance,
        "code": error.code,
    }
    if field := details.pop("field", ""):
        body["field"] = field
    headers = _headers(status, details)
    if details:
        body["details"] = details
    return Response(orjson.dumps(body), status, headers, media_type=MEDIA_TYPE)


def _headers(status: int, details: dict[str, str]) -> Mapping[str, str]:
    """Takes what belongs into a header out of ``details``."""
    wait = details.pop(RETRY_AFTER, "1")
    if status in (429, 503):
        return {"Retry-After": wait}
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="leasehold", error="invalid_token"'}
    if status == 405:
        return {"Allow": details.pop("allow", "")}
    return {}


SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What went wrong, for people."},
        "instance": {"type": "string", "description": "The request, as it stands in the logs."},
        "code": {"type": "string", "description": "What went wrong, for programs; stable."},
        "field": {"type": "string", "description": "Path of the field that is wrong."},
        "details": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
