"""The output of a workload."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from chassis.errors import Invalid
from gateway.http import incoming
from gateway.http.calls import rpc
from gateway.http.operations import Ask, Operation
from gateway.http.output import Output
from gateway.http.queries import FOLLOW, OFFSET

_TEXT, _EVENTS = "text/plain", "text/event-stream"
_SCHEMA = {"type": "string"}


def operations() -> tuple[Operation, ...]:
    output = Output()

    async def logs(ask: Ask) -> Response:
        follow = ask.query.get("follow") == "true"
        pieces = (output.events if follow else output.text)(ask, _offset(ask))
        first = await anext(pieces)  # what fails, fails before the answer has begun
        media = _EVENTS if follow else _TEXT
        return StreamingResponse(_rejoined(first, pieces), media_type=media)

    return (
        Operation(
            method="GET",
            path="/v1/workloads/{workload_id}/logs",
            summary="Shows what a workload printed; with follow=true as server-sent events.",
            handle=logs,
            rpc=rpc("placement", "ReadLogs"),
            query=(FOLLOW, OFFSET),
            answers={_TEXT: _SCHEMA, _EVENTS: _SCHEMA},
        ),
    )


def _offset(ask: Ask) -> int:
    """Where to begin: the last event a client has seen counts more than what it once asked."""
    seen = incoming.only(ask.request.headers, "last-event-id")
    if seen and not re.fullmatch(OFFSET.pattern, seen, re.ASCII):
        raise Invalid("Last-Event-ID is no id of ours", code="EVENT_ID", field="last-event-id")
    return int(seen or ask.query.get("offset", "0"))


async def _rejoined(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece
