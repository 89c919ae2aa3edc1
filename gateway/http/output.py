"""What a workload printed: as plain text, or live as server-sent events that can be resumed.

An event's id is the offset of the byte after it, so a client that reconnects with Last-Event-ID
misses nothing and sees nothing twice. Text is decoded across chunks: an id never stands in the
middle of a character.
"""

import asyncio
import codecs
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import orjson

from chassis.errors import NotFound, Overloaded, ServiceError
from gateway.http.calls import rpc
from gateway.http.operations import Ask
from leasehold.admission.v1.admission_service_pb2 import GetWorkloadRequest
from leasehold.admission.v1.workload_pb2 import Workload, WorkloadState
from leasehold.placement.v1.placement_service_pb2 import ReadLogsRequest

READ_SECONDS = 30
FOLLOW_SECONDS = 900
PULSE_SECONDS = 10
LOOK_SECONDS = 0.5
LOOKS_MAX = 1800
STREAMS_MAX = 20

_GET = rpc("admission", "GetWorkload")
_READ = rpc("placement", "ReadLogs")
_WAITING = (WorkloadState.WORKLOAD_STATE_QUEUED, WorkloadState.WORKLOAD_STATE_ADMITTED)


class Output:
    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    async def text(self, ask: Ask, offset: int) -> AsyncGenerator[bytes, None]:
        """Everything so far. The first piece is empty: with it all errors are known."""
        workload = await _workload(ask)
        yield b""
        if workload.lease_id:
            async for chunk in _chunks(ask, workload.lease_id, offset, follow=False):
                yield chunk.data

    async def events(self, ask: Ask, offset: int) -> AsyncGenerator[bytes, None]:
        """Server-sent events until the workload has ended. The first piece is a comment."""
        if self._open[ask.own_tenant] >= STREAMS_MAX:
            raise Overloaded(f"{STREAMS_MAX} streams are open already", code="STREAMS_MAX")
        self._open[ask.own_tenant] += 1
        try:
            workload = await _workload(ask)
            yield b": following\n\n"
            async with aclosing(_followed(ask, workload, offset)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._open[ask.own_tenant] -= 1


async def _followed(ask: Ask, workload: Workload, offset: int) -> AsyncGenerator[bytes, None]:
    """A stream that lasts too long ends without a word: the client comes back with its id."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        for _ in range(LOOKS_MAX):
            if workload.lease_id or workload.state not in _WAITING:
                break
            await asyncio.sleep(LOOK_SECONDS)
            yield b": waiting\n\n"
            workload = await _workload(ask)
        else:
            return
        if workload.lease_id:
            chunks = _chunks(ask, workload.lease_id, offset, follow=True)
            async with aclosing(_with_pulse(chunks)) as timed:
                async for chunk in timed:
                    if chunk is None:
                        yield b": still here\n\n"
                    elif event := _event(decoder, chunk):
                        yield event
        yield b"event: end\ndata: {}\n\n"
    except ServiceError as error:
        if error.code != "DEADLINE_EXCEEDED":
            data = orjson.dumps({"code": error.code, "detail": error.message})
            yield b"event: error\ndata: " + data + b"\n\n"


def _event(decoder: codecs.IncrementalDecoder, chunk: Any) -> bytes:
    kept = len(decoder.getstate()[0])
    text = decoder.decode(chunk.data)
    end = chunk.offset + len(chunk.data) - len(decoder.getstate()[0])
    if not text:
        return b""
    data = orjson.dumps({"offset": chunk.offset - kept, "text": text})
    return f"id: {end}\n".encode() + b"data: " + data + b"\n\n"


async def _with_pulse(chunks: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Each chunk, and None whenever nothing came for a while: a dead client is found by writing."""
    coming = asyncio.ensure_future(anext(chunks))
    try:
        while True:
            await asyncio.wait([coming], timeout=PULSE_SECONDS)
            if not coming.done():
                yield None
                continue
            try:
                chunk = coming.result()
            except StopAsyncIteration:
                return
            yield chunk
            coming = asyncio.ensure_future(anext(chunks))
    finally:
        coming.cancel()


def _chunks(ask: Ask, lease_id: str, offset: int, *, follow: bool) -> AsyncIterator[Any]:
    return ask.services.stream(
        _READ,
        ReadLogsRequest(lease_id=lease_id, offset=offset, follow=follow),
        ask.person,
        request_id=ask.request_id,
        seconds=FOLLOW_SECONDS if follow else READ_SECONDS,
    )


async def _workload(ask: Ask) -> Workload:
    answer = await ask.call(_GET, GetWorkloadRequest(workload_id=ask.path["workload_id"]))
    if not answer.workload.workload_id:
        raise NotFound("there is no such workload")
    return answer.workload  # type: ignore[no-any-return]
