"""What stands around every RPC handler; ``chassis.rpc`` says in which order and why.

Requests reach the door as bytes and are parsed here: gRPC's own parsing would answer a
malformed message with INTERNAL, which says that the fault is ours.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError
from prometheus_client import Histogram

from chassis import ids, statuses, tracing
from chassis.callers import caller
from chassis.errors import Denied, Invalid, ServiceError
from chassis.logs import correlated
from chassis.metrics import REGISTRY

Table = Mapping[str, Mapping[str, bool]]

DEADLINE_SECONDS_MAX = 24 * 3600

_log = logging.getLogger(__name__)
_seconds = Histogram(
    "leasehold_rpc_seconds",
    "Time from the arrival of a call to its answer",
    ("method", "code"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)


def behind_door(method: str, handler: grpc.RpcMethodHandler, table: Table) -> grpc.RpcMethodHandler:
    """``handler`` behind the door. A method without a row in ``table`` is closed to all."""
    allowed = frozenset(role for role, yes in table.get(method, {}).items() if yes)
    parse = handler.request_deserializer or bytes

    def admitted(data: bytes, context: grpc.aio.ServicerContext) -> Any:
        _authorise(method, allowed, context)
        _require_deadline(context)
        return _parsed(parse, data)

    if handler.unary_unary is not None:
        answer: Callable[..., Awaitable[Any]] = _unary(method, admitted, handler.unary_unary)
        return grpc.unary_unary_rpc_method_handler(answer, None, handler.response_serializer)
    if handler.unary_stream is not None:
        answer = _stream(method, admitted, handler.unary_stream)
        return grpc.unary_stream_rpc_method_handler(answer, None, handler.response_serializer)
    raise TypeError(f"{method} streams its requests, which no door supports")


def _unary(method: str, admitted: Callable[..., Any], handle: Any) -> Callable[..., Awaitable[Any]]:
    async def answer(data: bytes, context: grpc.aio.ServicerContext) -> Any:
        with _observed(method, context):
            try:
                return await handle(admitted(data, context), context)
            except Exception as error:
                await _refuse(method, context, error)

    return answer


def _stream(
    method: str, admitted: Callable[..., Any], handle: Any
) -> Callable[..., Awaitable[Any]]:
    # Writes instead of yielding: a generator that is dropped half-way would be closed in another
    # context than it was started in, and its span with it.
    async def answer(data: bytes, context: grpc.aio.ServicerContext) -> None:
        with _observed(method, context):
            try:
                async with aclosing(handle(admitted(data, context), context)) as responses:
                    async for response in responses:
                        await context.write(response)
            except Exception as error:
                await _refuse(method, context, error)

    return answer


@contextmanager
def _observed(method: str, context: grpc.aio.ServicerContext) -> Iterator[None]:
    started = time.perf_counter()
    code = "OK"
    metadata = context.invocation_metadata() or ()
    correlation_id = next((str(v) for k, v in metadata if k == "x-correlation-id"), "")
    try:
        with tracing.span(method, tracing.extract(metadata)), correlated(correlation_id):
            yield
    except asyncio.CancelledError:
        code = "CANCELLED"
        raise
    except grpc.aio.AbortError:
        code = context.code().name
        raise
    finally:
        _seconds.labels(method, code).observe(time.perf_counter() - started)


def _authorise(method: str, allowed: frozenset[str], context: grpc.aio.ServicerContext) -> None:
    who = caller(context)
    if who.role not in allowed:
        _log.warning("call denied", extra={"method": method, "actor": who.actor, "role": who.role})
        raise Denied(f"{who.role} may not call {method}")


def _require_deadline(context: grpc.aio.ServicerContext) -> None:
    seconds = context.time_remaining()
    if seconds is None:
        raise Invalid("every call needs a deadline", code="DEADLINE_REQUIRED")
    if seconds > DEADLINE_SECONDS_MAX:
        raise Invalid("the deadline is more than a day away", code="DEADLINE_TOO_FAR")


def _parsed(parse: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return parse(data)
    except DecodeError:
        raise Invalid("the request is not a message of this method", code="MALFORMED") from None


async def _refuse(method: str, context: grpc.aio.ServicerContext, error: Exception) -> NoReturn:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, ServiceError):
        status, code, message = statuses.status_of(error), error.code, error.message
        details = error.details
    else:
        incident = ids.new("inc")
        _log.error("incident", extra={"method": method, "incident": incident}, exc_info=error)
        status, code, details = grpc.StatusCode.INTERNAL, "INTERNAL", {"incident": incident}
        message = f"internal error; incident {incident}"
    rich = statuses.trailer(status, code, message, details)
    await context.abort(status, statuses.shortened(message), ((statuses.DETAILS, rich),))
