"""One mapping between the errors of the core and gRPC statuses, in both directions.

An error travels as ``google.rpc.Status`` with an ErrorInfo whose reason is the error's stable
code, so that a client can rebuild the same typed error. Only the code is contract; the message
is for people.
"""

from __future__ import annotations

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

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

DETAILS = "grpc-status-details-bin"
DOMAIN = "leasehold"

# Trailers are capped by every gRPC client; an error that is too long would be lost whole.
_MESSAGE_CHARACTERS_MAX = 1000
_DETAIL_CHARACTERS_MAX = 256
_DETAILS_MAX = 16

_STATUS: dict[type[ServiceError], grpc.StatusCode] = {
    Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    Conflict: grpc.StatusCode.ALREADY_EXISTS,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
}
_ERROR = {status: kind for kind, status in _STATUS.items()}
# What gRPC itself says, without any code of ours.
_FOREIGN: dict[grpc.StatusCode, type[ServiceError]] = {
    **_ERROR,
    grpc.StatusCode.UNAUTHENTICATED: Denied,
}


def status_of(error: ServiceError) -> grpc.StatusCode:
    return next(
        (_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS),
        grpc.StatusCode.INTERNAL,
    )


def trailer(status: grpc.StatusCode, code: str, message: str, details: dict[str, str]) -> bytes:
    """The rich error for the trailing metadata, under the name DETAILS."""
    short = {
        name: str(value)[:_DETAIL_CHARACTERS_MAX]
        for name, value in sorted(details.items())[:_DETAILS_MAX]
    }
    rich = Status(code=status.value[0], message=message[:_MESSAGE_CHARACTERS_MAX])
    rich.details.append(_packed(ErrorInfo(reason=code, domain=DOMAIN, metadata=short)))
    if "field" in short:
        violation = BadRequest.FieldViolation(field=short["field"], description=rich.message)
        rich.details.append(_packed(BadRequest(field_violations=[violation])))
    return bytes(rich.SerializeToString())


def shortened(message: str) -> str:
    return message[:_MESSAGE_CHARACTERS_MAX]


def error_from_rpc(error: grpc.aio.AioRpcError) -> ServiceError:
    """A peer's answer as the typed error it was; Unavailable for what is not about the request."""
    info = _info(error)
    message = error.details() or error.code().name
    if info is not None:
        known = _ERROR.get(error.code(), Unavailable)(message, code=info.reason)
        known.details = dict(info.metadata)
        return known
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in message:
        return Invalid(message, code="TOO_LARGE")
    return _FOREIGN.get(error.code(), Unavailable)(message, code=error.code().name)


def _info(error: grpc.aio.AioRpcError) -> ErrorInfo | None:
    data = dict(error.trailing_metadata() or ()).get(DETAILS)
    if not isinstance(data, bytes):
        return None
    try:
        for detail in Status.FromString(data).details:
            info = ErrorInfo()
            if detail.Unpack(info) and info.domain == DOMAIN:
                return info
    except DecodeError:
        return None
    return None


def _packed(message: ErrorInfo | BadRequest) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed
