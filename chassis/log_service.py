"""Every service's log, for its consumers, for finance and for auditors.

It reads the store, not the application: what it sends is what the database holds, so a changed
byte shows.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import grpc

from chassis.application import Application
from chassis.consumer import Consumer
from chassis.edge import Edge
from chassis.events import Recorded
from chassis.store import Store
from leasehold.chassis.v1 import event_pb2
from leasehold.chassis.v1 import log_service_pb2 as pb
from leasehold.chassis.v1 import log_service_pb2_grpc as pb_grpc

WINDOW = 5_000
CHUNK = 1_000_000


class LogService(pb_grpc.LogServiceServicer):
    def __init__(
        self, application: Application, store: Store, edge: Edge, consumers: Sequence[Consumer]
    ) -> None:
        self._application = application
        self._store = store
        self._edge = edge
        self._consumers = consumers

    async def Replay(
        self, request: pb.ReplayRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.ReplayResponse]:
        until = request.until or (await asyncio.to_thread(self._store.head)).position
        filters: dict[str, Any] = {
            "topics": list(request.topics),
            "tenant_id": request.tenant_id,
            "aggregate_id": request.aggregate_id,
            "correlation_id": request.correlation_id,
        }
        after = request.after
        # An index finds the events of one aggregate or correlation; anything else is read
        # window by window, so that no page costs more than the window.
        indexed = bool(request.aggregate_id or request.correlation_id)
        while after < until:
            end = until if indexed else min(until, after + WINDOW)
            page = await asyncio.to_thread(self._store.read, after, WINDOW, until=end, **filters)
            for part in parts(page):
                yield pb.ReplayResponse(events=[recorded_event(row) for row in part])
            after = page[-1].position if len(page) == WINDOW else end

    async def GetHead(
        self, request: pb.GetHeadRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetHeadResponse:
        head = await asyncio.to_thread(self._store.head)
        return pb.GetHeadResponse(
            service=self._application.service,
            position=head.position,
            hash=head.hash,
            epoch=head.epoch,
            incarnation=await asyncio.to_thread(self._store.incarnation),
        )

    async def GetState(
        self, request: pb.GetStateRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.GetStateResponse]:
        def ask() -> tuple[int, bytes]:
            return self._application.head.position, self._application.state()

        position, state = await self._edge.query(ask)
        for start in range(0, len(state), CHUNK):
            yield pb.GetStateResponse(position=position, chunk=state[start : start + CHUNK])

    async def ListParked(
        self, request: pb.ListParkedRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListParkedResponse:
        parked = await asyncio.to_thread(self._store.parked)
        return pb.ListParkedResponse(
            parked=[
                pb.ParkedEvent(
                    source=event.source,
                    position=event.position,
                    aggregate_id=event.aggregate_id,
                    topic=event.topic,
                    cause=event.cause,
                )
                for event in parked
            ]
        )

    async def RedriveParked(
        self, request: pb.RedriveParkedRequest, context: grpc.aio.ServicerContext
    ) -> pb.RedriveParkedResponse:
        applied = 0
        for consumer in self._consumers:
            if request.source in ("", consumer.source):
                applied += await consumer.redrive()
        parked = await asyncio.to_thread(self._store.parked, request.source)
        return pb.RedriveParkedResponse(applied=applied, still_parked=len(parked))


def parts(page: list[Recorded]) -> Iterator[list[Recorded]]:
    """A page in pieces that fit into a message; a page is counted in rows, a message in bytes."""
    part: list[Recorded] = []
    size = 0
    for row in page:
        if part and size + len(row.data) > CHUNK:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row.data)
    if part:
        yield part


def recorded_event(row: Recorded) -> event_pb2.RecordedEvent:
    return event_pb2.RecordedEvent(
        position=row.position,
        prev=row.position - 1,
        aggregate_id=row.aggregate_id,
        version=row.version,
        topic=row.topic,
        tenant_id=row.tenant_id,
        correlation_id=row.correlation_id,
        data=row.data,
        hash=row.hash,
        traceparent=row.traceparent,
    )
