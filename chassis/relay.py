"""Publishes a service's log to its stream: in order, no gap, no repeat.

Nothing is remembered here: the stream's own last message says what comes next. Each message
names the one that must precede it, so any number of relays may run at once, and whatever fails,
the answer is to look at the stream's last message again. A stream that was lost is published
again from the log; one that contradicts the log is replaced, with an alarm. The last message of
every batch is sealed, and with it all before: without a seal no consumer believes the bus.
"""

import asyncio
import logging
import random
from dataclasses import dataclass

import psycopg
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg, StreamConfig
from nats.js.errors import NotFoundError
from prometheus_client import Counter, Gauge
from psycopg_pool import PoolTimeout

from chassis import canonical, seal
from chassis.bus import BUS_ERRORS, EVENTS_AGE_SECONDS, Bus, events_stream
from chassis.cancelling import end_if_cancelled
from chassis.clock import SECOND, now
from chassis.envelope import MESSAGE_ID, Origin, headers, subject
from chassis.events import Recorded
from chassis.identity import Identity
from chassis.metrics import REGISTRY
from chassis.publisher import Message, Publisher
from chassis.store import Store

log = logging.getLogger(__name__)

DEPTH = 512
POLL_SECONDS = 0.25
LOOK_AGAIN_SECONDS = 5.0
# What the headers of a message may take of the server's limit.
HEADERS_BYTES_MAX = 4_096

_published = Counter("leasehold_relay_published", "Events published", registry=REGISTRY)
_failures = Counter("leasehold_relay_failures", "Attempts that failed", registry=REGISTRY)
_rolls = Counter(
    "leasehold_relay_rolls",
    "Streams replaced because they contradicted the log; look into every one",
    registry=REGISTRY,
)
_tail = Gauge("leasehold_relay_tail", "Position of the last published event", registry=REGISTRY)
_lag = Gauge("leasehold_relay_lag", "Events recorded and not yet published", registry=REGISTRY)


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a stream ends. Position 0 is before the first event."""

    position: int
    hash: str = ""
    message_id: str = ""
    # The server's own number, which says nothing about events but that none came in between.
    sequence: int = 0

    def expectation(self) -> dict[str, str]:
        """The headers that make the server refuse a message at any other place."""
        expected = {"Nats-Expected-Last-Sequence": str(self.sequence)}
        if self.message_id:
            expected["Nats-Expected-Last-Msg-Id"] = self.message_id
        return expected


class Relay:
    def __init__(self, store: Store, service: str, identity: Identity) -> None:
        self._store = store
        self._service = service
        self._identity = identity
        self._declared: StreamConfig = events_stream(service)
        self._wake = asyncio.Event()
        self._publisher: Publisher | None = None

    def nudge(self) -> None:
        """Something was recorded; call it on the event loop."""
        self._wake.set()

    async def run(self, bus: Bus) -> None:
        while True:
            end_if_cancelled()
            try:
                await self._publish_until_trouble(bus)
            except (*BUS_ERRORS, psycopg.OperationalError, PoolTimeout) as error:
                _failures.inc()
                log.info("the relay looks at the stream again: %r", error)
                # Relays that failed together should not try again together.
                await asyncio.sleep(POLL_SECONDS * random.uniform(0.2, 1.0))

    async def _publish_until_trouble(self, bus: Bus) -> None:
        """Ends after a while without events, so that a lost stream is noticed at rest, too."""
        jetstream = await bus.jetstream()
        incarnation = await asyncio.to_thread(self._store.incarnation)
        origin = Origin(self._service, self._store.shard, incarnation)
        tail = await self._find_tail(bus, jetstream)
        publisher = await Publisher.on(await bus.client(), self._publisher)
        self._publisher = publisher
        rested = 0.0
        while rested < LOOK_AGAIN_SECONDS:
            end_if_cancelled()
            publisher.check_connection()
            self._wake.clear()
            events = await asyncio.to_thread(self._store.read, tail.position, DEPTH)
            if events:
                _lag.set(len(events))
                tail = await self._publish(publisher, origin, tail, events)
                rested = 0.0
            _lag.set(0)
            _tail.set(tail.position)
            if len(events) < DEPTH and not await self._nudged():
                rested += POLL_SECONDS

    async def _publish(
        self, publisher: Publisher, origin: Origin, tail: Tail, events: list[Recorded]
    ) -> Tail:
        # What the bus cannot carry is left out; consumers see the gap and ask for it here.
        data_max = publisher.payload_max - HEADERS_BYTES_MAX
        carried = [event for event in events if len(event.data) <= data_max]
        messages = []
        for event in carried:
            named = headers(origin, event) | tail.expectation()
            if event is carried[-1]:
                named |= seal.sign(self._identity.credentials(), origin, event)
            messages.append(Message(subject(event), named, event.data))
            message_id, sequence = named[MESSAGE_ID], tail.sequence + 1
            tail = Tail(event.position, event.hash.hex(), message_id, sequence)
        if messages:
            await publisher.publish(messages)
            _published.inc(len(messages))
        return Tail(events[-1].position, tail.hash, tail.message_id, tail.sequence)

    async def _find_tail(self, bus: Bus, jetstream: JetStreamContext) -> Tail:
        info = await bus.ensure(self._declared)
        name, subjects = str(self._declared.name), f"evt.v1.{self._service}.>"
        try:
            last = await jetstream.get_last_msg(name, subjects)
        except NotFoundError:
            start = await asyncio.to_thread(self._horizon)
            return Tail(start, sequence=info.state.last_seq)
        tail = _tail_of(last)
        # The log is asked after the stream: what is published was recorded before.
        if tail is None or not await asyncio.to_thread(self._continues, tail):
            _rolls.inc()
            log.error("stream %s contradicts the log; replacing it", name)
            await jetstream.delete_stream(name)
            return await self._find_tail(bus, jetstream)
        return tail

    def _continues(self, tail: Tail) -> bool:
        found = self._store.read(tail.position - 1, 1, until=tail.position)
        return bool(found) and found[0].hash.hex() == tail.hash

    def _horizon(self) -> int:
        """The position before the oldest event that a stream would still hold."""
        oldest = now() - EVENTS_AGE_SECONDS * SECOND
        low, high = 0, self._store.head().position
        while low < high:
            middle = (low + high) // 2
            event = self._store.read(middle, 1)[0]
            if canonical.loads(event.data)["meta"]["at"] < oldest:
                low = middle + 1
            else:
                high = middle
        return low

    async def _nudged(self) -> bool:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True


def _tail_of(last: RawStreamMsg) -> Tail | None:
    """What the last message says about itself; None if no relay has written it."""
    found = last.headers or {}
    try:
        position = int(found["ce-position"])
        return Tail(position, found["ce-hash"], found[MESSAGE_ID], last.seq or 0)
    except (KeyError, ValueError):
        return None
