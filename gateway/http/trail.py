"""The trail of a lease: every event of every service that follows from its intent.

Whoever may see the lease may see its trail; the logs themselves are read in the gateway's own
name. An answer is whole or none: a trail with a service missing would look like one where
nothing happened there.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson

from chassis.errors import Refused, Unavailable
from chassis.events import event_id
from gateway.causality import in_causal_order
from gateway.http.calls import SERVICES, rpc
from gateway.http.operations import Ask
from leasehold.chassis.v1.event_pb2 import RecordedEvent
from leasehold.chassis.v1.log_service_pb2 import ReplayRequest

SECONDS = 10
EVENTS_MAX = 100_000

_REPLAY = rpc("chassis", "Replay")
_SHARD = 0


@dataclass(frozen=True, slots=True)
class Event:
    service: str
    position: int
    event_id: str
    topic: str
    at: int
    actor: str
    causation_id: str
    aggregate_id: str
    hash: str
    # The stored bytes; they are shown as they are, so that the hash can be checked.
    data: bytes

    def shown(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "data": orjson.Fragment(self.data)}


async def trail(ask: Ask, correlation_id: str, tenant_id: str) -> list[Event]:
    """The events in causal order."""
    request = ReplayRequest(correlation_id=correlation_id, tenant_id=tenant_id)
    logs = await asyncio.gather(*(_log(ask, service, request) for service in SERVICES))
    return in_causal_order(event for log in logs for event in log)


async def _log(ask: Ask, service: str, request: ReplayRequest) -> list[Event]:
    found: list[Event] = []
    answers = ask.services.stream(
        _REPLAY, request, None, request_id=ask.request_id, seconds=SECONDS, service=service
    )
    try:
        async for answer in answers:
            found += [_event(service, recorded) for recorded in answer.events]
            if len(found) > EVENTS_MAX:
                raise Refused(f"{service} alone has more than {EVENTS_MAX}", code="TRAIL_TOO_LONG")
    except Unavailable as error:
        raise Unavailable(f"{service}: {error.message}", code=error.code) from None
    return found


def _event(service: str, recorded: RecordedEvent) -> Event:
    meta = orjson.loads(recorded.data)["meta"]
    return Event(
        service=service,
        position=recorded.position,
        event_id=event_id(service, _SHARD, recorded.position),
        topic=recorded.topic,
        at=meta["at"],
        actor=meta["actor"],
        causation_id=meta["causation_id"],
        aggregate_id=recorded.aggregate_id,
        hash=recorded.hash.hex(),
        data=recorded.data,
    )
