"""A depot and a ledger that follows it, in one process, over real PostgreSQL, NATS and mTLS."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import nats
from nats.js.errors import NotFoundError

from chassis import seal
from chassis.bus import Bus, events_stream
from chassis.channels import Channels
from chassis.consumer import Consumer
from chassis.edge import Edge
from chassis.envelope import Origin, headers, subject
from chassis.events import Recorded
from chassis.identity import Identity
from chassis.metrics import REGISTRY
from chassis.relay import Relay
from tests import servers
from tests.chassis.mesh import Mesh
from tests.chassis.shelf import Depot
from tests.delivery.ledger import Account, Ledger, account_of, reactions
from tests.delivery.rig import Core, core, log_served, mount, relaying
from tests.delivery.streams import STREAM
from tests.waiting import wait_until

Publish = Callable[..., Awaitable[None]]


@dataclass
class Pair:
    """A depot, and a ledger that follows it."""

    depot: Core[Depot]
    ledger: Core[Ledger]
    mesh: Mesh
    port: int
    bus_url: str

    def goods(self, shelf: str) -> int:
        account = self.ledger.app.find(Account, account_of(shelf))
        return account.goods if account else 0

    @asynccontextmanager
    async def following(self) -> AsyncIterator[Consumer]:
        bus = Bus(self.bus_url, "ledger")
        identity = self.mesh.service("ledger")
        channels = Channels(identity, {"depot": f"127.0.0.1:{self.port}"})
        edge = Edge("ledger", self.ledger.writer, channels)
        table = reactions(self.ledger.app)
        consumer = Consumer("ledger", "depot", bus, self.ledger.store, edge, table, identity)
        task = asyncio.create_task(consumer.run())
        try:
            yield consumer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await channels.close()
            await bus.close()

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[None]:
        async with log_served(self.depot, self.mesh.service("depot"), self.port):
            yield

    @asynccontextmanager
    async def relaying(self) -> AsyncIterator[Relay]:
        async with relaying(self.depot, self.bus_url, self.mesh.service("depot")) as relay:
            yield relay

    async def subscribed(self) -> None:
        """The consumer listens to the bus, and has asked the owner for what was before."""
        client = await nats.connect(self.bus_url)

        async def has_durable() -> bool:
            try:
                info = await client.jetstream().consumer_info(STREAM, "ledger")
            except NotFoundError:
                return False
            return bool(info.num_waiting)

        await until(has_durable)
        await client.close()
        await self.caught_up()

    async def caught_up(self, seconds: float = 15) -> None:
        """The cursor is at the owner's head, and the accounts hold what the shelves hold."""

        def at_head() -> bool:
            cursor = self.ledger.store.cursor("depot")
            return (cursor.position if cursor else 0) == self.depot.store.head().position

        await until(at_head, seconds)
        cursor = self.ledger.store.cursor("depot")
        assert cursor is not None
        assert cursor.hash == self.depot.store.head().hash


@contextmanager
def pair_on(database_url: str, bus_url: str, folder: Path) -> Iterator[Pair]:
    """Two shelves are mounted: positions 1 and 2."""
    with core(Depot, database_url) as depot, core(Ledger, database_url) as ledger:
        mount(depot, "shf_1", "shf_2")
        yield Pair(depot, ledger, Mesh(folder), servers.free_port(), bus_url)


@asynccontextmanager
async def stream(pair: Pair) -> AsyncIterator[Publish]:
    """The depot's stream, written by hand instead of by a relay."""
    bus = Bus(pair.bus_url, "depot")
    await bus.ensure(events_stream("depot"))
    jetstream = await bus.jetstream()
    origin = Origin("depot", 0, pair.depot.store.incarnation())
    depot = pair.mesh.service("depot")

    async def publish(
        row: Recorded,
        data: bytes | None = None,
        sealer: Identity | None = depot,
        **changed: str | None,
    ) -> None:
        """``changed`` headers are replaced; None leaves one out."""
        named = headers(origin, row)
        del named["Nats-Msg-Id"]
        if sealer is not None:
            named |= seal.sign(sealer.credentials(), origin, row)
        for name, value in changed.items():
            name = name.replace("_", "-")
            if value is None:
                del named[name]
            else:
                named[name] = value
        await jetstream.publish(subject(row), row.data if data is None else data, headers=named)

    try:
        yield publish
    finally:
        await bus.close()


async def until(
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = 10
) -> None:
    """Wait for a condition of either colour."""

    async def ask() -> bool:
        answer = condition()
        return answer if isinstance(answer, bool) else await answer

    await wait_until(ask, seconds=seconds, what=condition.__qualname__)


def metric(name: str) -> float:
    return REGISTRY.get_sample_value(f"leasehold_{name}", {"source": "depot"}) or 0
