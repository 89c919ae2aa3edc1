"""Events of another service that cannot be applied, kept until an operator has helped.

What is parked is in the store, in the same commit that moved the cursor past it; the copy in
the dead-letter stream is only there to be seen. While an aggregate has a parked event, its
later events are parked too: its order is kept, and all other aggregates go on.
"""

import asyncio
import logging
from concurrent.futures import Future
from typing import Any

from nats.js.errors import APIError
from prometheus_client import Gauge

from chassis import canonical
from chassis.bus import Bus, dead_letters_stream
from chassis.edge import settled
from chassis.events import Recorded, event_id
from chassis.incoming import Reactions
from chassis.metrics import REGISTRY
from chassis.store import Cursor, Parked, Store
from chassis.writer import Writer

log = logging.getLogger(__name__)

CAUSE_LENGTH_MAX = 1_000
_WRONG_LAST_SEQUENCE = 10071

_waiting = Gauge(
    "leasehold_parked_events",
    "Events of a source that could not be applied and wait for an operator",
    ("source",),
    registry=REGISTRY,
)


class Parking:
    def __init__(
        self, service: str, source: str, store: Store, writer: Writer, reactions: Reactions
    ) -> None:
        self._service = service
        self._source = source
        self._store = store
        self._writer = writer
        self._reactions = reactions
        self._aggregates: set[str] = set()
        self._uncopied: list[Parked] = []

    async def load(self) -> None:
        self._uncopied = await asyncio.to_thread(self._store.parked, self._source)
        self._aggregates = {parked.aggregate_id for parked in self._uncopied}
        _waiting.labels(self._source).set(len(self._uncopied))

    def holds_up(self, event: Recorded) -> bool:
        """Must this event wait for an earlier one of its aggregate?"""
        return event.aggregate_id in self._aggregates

    def park(self, event: Recorded, cursor: Cursor, cause: str) -> Future[Any]:
        """Set the event aside and move past it; done when committed."""
        parked = Parked(
            self._source,
            event.position,
            event.aggregate_id,
            event.topic,
            cause[:CAUSE_LENGTH_MAX],
            event.data,
        )

        def settled_by_writer(done: Future[Any]) -> None:
            if done.exception() is None:
                self._note(parked)

        future = self._writer.command(_nothing, cursor=cursor, park=parked)
        future.add_done_callback(settled_by_writer)
        return future

    async def redrive(self) -> int:
        """Apply what is parked, oldest first, each exactly once; what fails again stays."""
        applied, stuck = 0, set()
        for parked in await asyncio.to_thread(self._store.parked, self._source):
            if parked.aggregate_id in stuck:
                continue
            event = _recorded(parked)
            try:
                await settled(
                    self._writer.command(
                        self._reactions.run(event),
                        cause=self._reactions.cause(event),
                        unpark=(self._source, parked.position),
                    )
                )
                applied += 1
            except Exception as error:
                log.warning("%s/%s stays parked: %r", self._source, parked.position, error)
                stuck.add(parked.aggregate_id)
        await self.load()
        return applied

    async def copy_to_dead_letters(self, bus: Bus) -> None:
        if not self._uncopied:
            return
        await bus.ensure(dead_letters_stream(self._service))
        jetstream = await bus.jetstream()
        while self._uncopied:
            parked = self._uncopied[0]
            try:
                await jetstream.publish(
                    f"dlq.v1.{self._service}.{self._source}.{parked.position}",
                    parked.data,
                    headers={
                        "ce-id": event_id(self._source, 0, parked.position),
                        "ce-type": parked.topic,
                        "cause": parked.cause.encode("ascii", "replace").decode(),
                        # One copy for each event, however often this is tried.
                        "Nats-Expected-Last-Subject-Sequence": "0",
                    },
                )
            except APIError as error:
                if error.err_code != _WRONG_LAST_SEQUENCE:
                    raise
            self._uncopied.pop(0)

    def _note(self, parked: Parked) -> None:
        log.error("parked %s/%s: %s", parked.source, parked.position, parked.cause)
        self._aggregates.add(parked.aggregate_id)
        self._uncopied.append(parked)
        _waiting.labels(self._source).inc()


def _recorded(parked: Parked) -> Recorded:
    """The event as it would have been applied; what cannot be read is left to the reaction."""
    try:
        meta = canonical.loads(parked.data)["meta"]
        tenant_id, correlation_id = str(meta["tenant_id"]), str(meta["correlation_id"])
    except (KeyError, TypeError, ValueError):
        tenant_id = correlation_id = ""
    return Recorded(
        position=parked.position,
        aggregate_id=parked.aggregate_id,
        version=0,
        topic=parked.topic,
        tenant_id=tenant_id,
        correlation_id=correlation_id,
        traceparent="",
        data=parked.data,
        hash=b"",
    )


def _nothing(at: int) -> None:
    """The cursor moves; nothing else happens."""
