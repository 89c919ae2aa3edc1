"""The log of another service, asked for directly: what the bus is checked against."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc

from chassis.events import Recorded
from leasehold.chassis.v1 import event_pb2
from leasehold.chassis.v1 import log_service_pb2 as pb
from leasehold.chassis.v1.log_service_pb2_grpc import LogServiceStub

HEAD_SECONDS = 3
REPLAY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class OwnerHead:
    position: int
    hash: bytes
    incarnation: str


class Owner:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = LogServiceStub(channel)

    async def head(self) -> OwnerHead:
        answer = await self._stub.GetHead(pb.GetHeadRequest(), timeout=HEAD_SECONDS)
        return OwnerHead(answer.position, answer.hash, answer.incarnation)

    async def replay(self, after: int, *, until: int = 0) -> AsyncIterator[list[Recorded]]:
        request = pb.ReplayRequest(after=after, until=until)
        async for answer in self._stub.Replay(request, timeout=REPLAY_SECONDS):
            if answer.events:
                yield [_recorded(event) for event in answer.events]


def _recorded(event: event_pb2.RecordedEvent) -> Recorded:
    return Recorded(
        position=event.position,
        aggregate_id=event.aggregate_id,
        version=event.version,
        topic=event.topic,
        tenant_id=event.tenant_id,
        correlation_id=event.correlation_id,
        traceparent=event.traceparent,
        data=event.data,
        hash=event.hash,
    )
