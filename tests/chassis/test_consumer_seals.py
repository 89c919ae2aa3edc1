"""Whoever can write to the bus can continue a chain; nobody believes it without a seal."""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chassis import canonical, seal
from chassis.envelope import Origin
from chassis.events import Recorded
from chassis.identity import Identity
from tests.chassis.mesh import Mesh
from tests.delivery.pair import Pair, metric, pair_on, stream, until
from tests.delivery.rig import stock
from tests.waiting import let_pass_async

SERVICE = "spiffe://leasehold/svc/depot"
Sealer = Callable[[Mesh], Identity | None]


@pytest.fixture
def pair(database_url: str, nats_url: str, tmp_path: Path) -> Iterator[Pair]:
    with pair_on(database_url, nats_url, tmp_path) as running:
        yield running


# Whose seal a thief of the bus password could put on a forgery.
SEALERS: dict[str, Sealer] = {
    "nobody": lambda mesh: None,
    "another service": lambda mesh: mesh.service("gateway"),
    "a node": lambda mesh: mesh.node("nod_1"),
    "the node authority under the owner's name": lambda mesh: mesh.minted(SERVICE),
    "a foreign root": lambda mesh: Mesh(mesh.folder / "foreign").service("depot"),
    "an old key of the owner": lambda mesh: mesh.person(SERVICE, "old", seconds=-3600),
}


@pytest.mark.parametrize("who", SEALERS)
def test_a_forged_event_that_continues_the_chain_is_not_applied(pair: Pair, who: str) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following() as consumer:
            await pair.subscribed()
            before, written = metric("consumer_refused_total"), pair.ledger.store.head()
            forgery = forged_next(pair)
            await publish(forgery, sealer=SEALERS[who](pair.mesh))
            await until(lambda: metric("consumer_refused_total") == before + 1)
            assert pair.ledger.store.head() == written
            # The owner's own event takes the place that the forgery claimed.
            await asyncio.to_thread(stock, pair.depot, "shf_1", 7)
            real = pair.depot.store.read(2, 1)[0]
            assert real.position == forgery.position
            await publish(real)
            await pair.caught_up()
            assert consumer.halted == ""
        assert pair.goods("shf_1") == 7

    asyncio.run(scenario())


def test_a_seal_taken_from_another_event_does_not_seal_a_forgery(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following() as consumer:
            await pair.subscribed()
            before = metric("consumer_refused_total")
            last = pair.depot.store.read(1, 1)[0]
            origin = Origin("depot", 0, pair.depot.store.incarnation())
            taken = seal.sign(pair.mesh.service("depot").credentials(), origin, last)
            await publish(forged_next(pair), ce_seal=taken["ce-seal"], ce_sealer=taken["ce-sealer"])
            await until(lambda: metric("consumer_refused_total") == before + 1)
            await asyncio.to_thread(stock, pair.depot, "shf_1", 7)
            await publish(pair.depot.store.read(2, 1)[0])
            await pair.caught_up()
            assert consumer.halted == ""
        assert pair.goods("shf_1") == 7

    asyncio.run(scenario())


def test_a_forgery_and_the_owners_event_in_one_run_leave_the_owners(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish:
            async with pair.following():
                await pair.subscribed()
            forgery = forged_next(pair)
            await asyncio.to_thread(stock, pair.depot, "shf_1", 7, 8)
            await publish(forgery, sealer=None)
            for row in pair.depot.store.read(2, 2):
                await publish(row)
            async with pair.following() as consumer:
                await pair.caught_up()
                assert consumer.halted == ""
        assert pair.goods("shf_1") == 15

    asyncio.run(scenario())


def test_while_the_owner_is_away_a_forgery_waits_in_vain_and_its_next_event_is_applied(
    pair: Pair,
) -> None:
    async def scenario() -> None:
        async with stream(pair) as publish, pair.following() as consumer:
            async with pair.owner():
                await pair.subscribed()
            before = metric("consumer_refused_total")
            await publish(forged_next(pair), sealer=pair.mesh.service("gateway"))
            await until(lambda: metric("consumer_refused_total") == before + 1)
            await asyncio.to_thread(stock, pair.depot, "shf_1", 7)
            await publish(pair.depot.store.read(2, 1)[0])
            await pair.caught_up()
            assert consumer.halted == ""
        assert pair.goods("shf_1") == 7

    asyncio.run(scenario())


def test_what_is_not_sealed_yet_is_applied_when_the_rest_comes(pair: Pair) -> None:
    """As after a relay that died in the middle of a batch; its owner is not needed."""

    async def scenario() -> None:
        async with pair.owner(), pair.following():
            await pair.caught_up()
        await asyncio.to_thread(stock, pair.depot, "shf_1", *[1] * 10)
        rows = pair.depot.store.read(2, 10)
        origin = Origin("depot", 0, pair.depot.store.incarnation())
        async with stream(pair) as publish:
            for row in rows[:6]:
                await publish(row, sealer=None, Nats_Msg_Id=origin.message_id(row))
        async with pair.relaying(), pair.following():
            await pair.caught_up()
        assert pair.goods("shf_1") == 10

    asyncio.run(scenario())


def test_what_nobody_seals_is_settled_by_the_owner_without_an_alarm(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following():
            await pair.subscribed()
            refused = metric("consumer_refused_total")
            await asyncio.to_thread(stock, pair.depot, "shf_1", 1, 2, 3)
            for row in pair.depot.store.read(2, 2):
                await publish(row, sealer=None)
            await pair.caught_up()
            assert metric("consumer_refused_total") == refused
        assert pair.goods("shf_1") == 6

    asyncio.run(scenario())


def test_a_new_key_of_the_owner_is_followed_by_the_bus_alone(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.relaying() as relay, pair.following():
            async with pair.owner():
                await pair.subscribed()
            before = metric("consumer_backfilled_total")
            for _ in range(3):
                await asyncio.to_thread(stock, pair.depot, "shf_1", 1)
                relay.nudge()
                await pair.caught_up()
                pair.mesh.service("depot")
            assert metric("consumer_backfilled_total") == before
        assert pair.goods("shf_1") == 3

    asyncio.run(scenario())


def test_a_relay_that_dies_anywhere_holds_nobody_up(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), pair.following() as consumer:
            loading = asyncio.create_task(
                asyncio.to_thread(stock, pair.depot, "shf_1", *[1] * 2000)
            )
            refused = metric("consumer_refused_total")
            for seed in range(10):
                async with pair.relaying():
                    await let_pass_async(random.Random(seed).uniform(0, 0.1))
            await loading
            async with pair.relaying():
                await pair.caught_up()
            assert consumer.halted == ""
            assert metric("consumer_refused_total") == refused
        assert pair.goods("shf_1") == 2000

    asyncio.run(scenario())


def forged_next(pair: Pair) -> Recorded:
    """What nobody recorded, chained to the owner's last event without a fault."""
    head = pair.depot.store.head()
    last = pair.depot.store.read(head.position - 1, 1)[0]
    facts = canonical.loads(last.data) | {"goods": 1_000_000}
    facts["meta"] |= {"aggregate_id": "shf_1", "topic": "depot.shelf.stocked"}
    data = canonical.dumps(facts)
    return last._replace(
        position=head.position + 1,
        aggregate_id="shf_1",
        topic="depot.shelf.stocked",
        data=data,
        hash=canonical.chained(last.hash, data),
    )
