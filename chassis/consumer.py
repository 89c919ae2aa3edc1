"""Follows the log of another service: every event once, in order, whatever fails.

The bus is quick and not trusted; the owner's log is the truth. A message is applied only if it
continues the chain of what was applied before and the owner's seal is on it or on one that
follows. Anything else (a gap, a repeat with other bytes, a bad seal or none, a message nobody can
read, silence) is settled by asking the owner. If the owner's own log does not continue what was
applied, this consumer halts: going on would build on two histories.
"""

import asyncio
import logging
from collections.abc import Mapping

import grpc
from nats.aio.msg import Msg
from prometheus_client import Counter, Gauge

from chassis.applier import TRANSIENT, Applier, Doubtful
from chassis.bus import BUS_ERRORS, Bus, events_stream
from chassis.cancelling import end_if_cancelled
from chassis.chain import Chain, Diverged, Verdict
from chassis.clock import now
from chassis.edge import Edge
from chassis.envelope import Malformed, opened
from chassis.events import Recorded
from chassis.identity import Identity
from chassis.incoming import Incoming, Reaction
from chassis.metrics import REGISTRY
from chassis.owner import Owner
from chassis.pull import Pull
from chassis.store import Store
from chassis.unsealed import WAIT_SECONDS, Unsealed

__all__ = ["Consumer", "Incoming", "Reaction"]

log = logging.getLogger(__name__)

# How long the bus may be silent, or away, before the owner is asked instead.
SILENCE_SECONDS = 2.0
AWAY_SECONDS = 0.5
RETRY_SECONDS = 0.5

_LABELS = ("source",)
_backfilled = Counter(
    "leasehold_consumer_backfilled",
    "Events read from their owner because the bus did not bring them",
    _LABELS,
    registry=REGISTRY,
)
_refused = Counter(
    "leasehold_consumer_refused",
    "Messages on the bus that are not the owner's, or that cannot be read",
    _LABELS,
    registry=REGISTRY,
)
_position = Gauge(
    "leasehold_consumer_position", "How far the source is applied", _LABELS, registry=REGISTRY
)
_halted = Gauge(
    "leasehold_consumer_halted",
    "1 when the owner's log does not continue what was applied",
    _LABELS,
    registry=REGISTRY,
)


class Consumer:
    def __init__(
        self,
        service: str,
        source: str,
        bus: Bus,
        store: Store,
        edge: Edge,
        reactions: Mapping[str, Reaction],
        identity: Identity,
    ) -> None:
        self.source = source
        self.halted = ""
        self._identity = identity
        self._service = service
        self._bus = bus
        self._owner = Owner(edge.peer(source))
        self._applier = Applier(service, source, store, edge.writer, reactions)
        # Ends where the unsealed messages end; the applier's cursor stays behind until then.
        self._chain = Chain.at(self._applier.cursor)
        self._unsealed = Unsealed(source)
        self._pull: Pull | None = None

    async def run(self) -> None:
        """Never ends: a halted consumer waits for an operator, while all else goes on."""
        try:
            while True:
                try:
                    await self._applier.load()
                    self._begin_again()
                    await self._follow()
                except TRANSIENT as error:
                    log.info("%s is read again from the cursor: %r", self.source, error)
                    await asyncio.sleep(RETRY_SECONDS)
        except Diverged as reason:
            self.halted = str(reason)
            _halted.labels(self.source).set(1)
            log.critical("no longer following %s: %s", self.source, reason)
            await asyncio.Event().wait()
        finally:
            await self._unsubscribe()

    async def redrive(self) -> int:
        """Apply parked events of this source again; answers how many could be."""
        return await self._applier.redrive()

    async def _follow(self) -> None:
        while True:
            end_if_cancelled()
            try:
                pull = await self._subscribed()
                await self._applier.copy_to_dead_letters(self._bus)
                unsealed = bool(self._unsealed)
                if messages := await pull.arrived(WAIT_SECONDS if unsealed else SILENCE_SECONDS):
                    await self._take(messages)
                    await messages[-1].ack()
                elif await self._ask_owner() and not unsealed:
                    # The owner had more while the bus was silent: the durable may be stuck.
                    await pull.drop_durable()
                    await self._unsubscribe()
            except BUS_ERRORS as error:
                log.info("%s is followed without the bus: %r", self.source, error)
                await self._unsubscribe()
                await self._ask_owner()
                await asyncio.sleep(AWAY_SECONDS)

    async def _subscribed(self) -> Pull:
        if self._pull is None:
            stream = events_stream(self.source).name
            assert stream is not None
            jetstream, client = await self._bus.jetstream(), await self._bus.client()
            pull = Pull(client, jetstream, stream, self._service)
            await pull.open()
            self._pull = pull
            # What was published long ago is not delivered; from here on nothing is missed.
            await self._ask_owner()
        return self._pull

    async def _unsubscribe(self) -> None:
        pull, self._pull = self._pull, None
        if pull is not None:
            await pull.close()

    async def _take(self, messages: list[Msg]) -> None:
        """Apply what is sealed and continues the chain; settle all else with the owner, once."""
        in_doubt = self._sort(messages)
        judged = self._unsealed.judge(self._identity.credentials().trust, now())
        _refused.labels(self.source).inc(judged.bad)
        try:
            await self._apply(judged.believed, by_owner=False)
        except Doubtful as error:
            log.warning("asking the owner about an event that cannot be applied: %s", error)
            in_doubt = True
        if in_doubt or judged.in_doubt:
            await self._ask_owner()

    def _sort(self, messages: list[Msg]) -> bool:
        """Set aside what continues the chain; tells whether the owner has to say more."""
        in_doubt = False
        for message in messages:
            try:
                envelope = opened(self.source, message.headers, message.data)
                verdict = self._chain.judge(envelope)
            except Malformed as error:
                log.warning("%s", error)
                verdict = Verdict.CONTRADICTION
            if verdict is Verdict.NEXT:
                self._chain.append(envelope.event)
                self._unsealed.add(envelope, now())
            elif verdict is not Verdict.REPEAT:
                in_doubt = True
                if verdict is Verdict.CONTRADICTION:
                    _refused.labels(self.source).inc()
        return in_doubt

    async def _ask_owner(self) -> int:
        """Catch up with the owner's log; answers by how many events. 0 if it is away."""
        forgotten = self._begin_again()
        try:
            caught_up = await self._catch_up()
        except grpc.aio.AioRpcError as error:
            log.info("%s cannot be asked: %s %s", self.source, error.code(), error.details())
            return 0
        _refused.labels(self.source).inc(sum(not self._chain.knows(one) for one in forgotten))
        return caught_up

    def _begin_again(self) -> list[Recorded]:
        """Build on nothing but what was applied; answers what was set aside without a seal."""
        self._chain = Chain.at(self._applier.cursor)
        return self._unsealed.forget()

    async def _catch_up(self) -> int:
        head = await self._owner.head()
        cursor = self._applier.cursor
        if head.position < cursor.position:
            raise Diverged(f"its log ends at {head.position}, {cursor.position} was applied")
        if head.position == cursor.position and head.hash != cursor.hash:
            raise Diverged(f"its event {cursor.position} is not the one that was applied")
        self._applier.adopt(head.incarnation)
        self._chain = Chain.at(self._applier.cursor)
        caught_up = 0
        if head.position > cursor.position:
            # From the last applied event on: that it is still the same is checked again.
            async for page in self._owner.replay(max(cursor.position - 1, 0)):
                events = self._chain.continuation(page)
                await self._apply(events, by_owner=True)
                caught_up += len(events)
        _backfilled.labels(self.source).inc(caught_up)
        return caught_up

    async def _apply(self, events: list[Recorded], *, by_owner: bool) -> None:
        if events:
            await self._applier.apply(events, by_owner=by_owner)
            _position.labels(self.source).set(self._applier.cursor.position)
