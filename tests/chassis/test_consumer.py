"""The consumer: every event of the owner once, in order, whatever the bus does."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nats
import pytest
from nats.js.errors import NotFoundError

from chassis import canonical
from leasehold.launcher.embedded import Nats
from tests import servers
from tests.delivery.pair import Pair, metric, pair_on, stream, until
from tests.delivery.rig import stock
from tests.delivery.streams import STREAM


@pytest.fixture
def pair(database_url: str, nats_url: str, tmp_path: Path) -> Iterator[Pair]:
    with pair_on(database_url, nats_url, tmp_path) as running:
        yield running


def test_events_arrive_over_the_bus_and_are_applied_once(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), pair.relaying() as relay, pair.following():
            await pair.subscribed()
            before = metric("consumer_backfilled_total")
            for _ in range(10):
                await asyncio.to_thread(stock, pair.depot, "shf_1", *[1] * 100)
                relay.nudge()
            await pair.caught_up()
            assert metric("consumer_backfilled_total") == before
        assert pair.goods("shf_1") == 1000
        charged = pair.ledger.store.read(0, 2000, topics=["ledger.account.charged"])
        assert len(charged) == 1000
        assert canonical.loads(charged[0].data)["meta"]["causation_id"] == "depot/0/3"

    asyncio.run(scenario())


def test_a_gap_on_the_bus_is_filled_by_the_owner(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following():
            await pair.caught_up()
            await asyncio.to_thread(stock, pair.depot, "shf_1", 1, 2, 3)
            rows = pair.depot.store.read(2, 10)
            await publish(rows[2])
            await pair.caught_up()
        assert pair.goods("shf_1") == 6

    asyncio.run(scenario())


def test_repeats_and_old_messages_in_any_order_change_nothing(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following():
            await pair.caught_up()
            await asyncio.to_thread(stock, pair.depot, "shf_1", 1, 2, 3)
            rows = pair.depot.store.read(0, 10)
            for row in (rows[2], rows[3], rows[2], rows[0], rows[3], rows[4], rows[1], rows[4]):
                await publish(row)
            await pair.caught_up()
        assert pair.goods("shf_1") == 6

    asyncio.run(scenario())


def test_without_the_bus_the_owner_is_followed_directly(pair: Pair) -> None:
    nowhere = replace(pair, bus_url=f"nats://127.0.0.1:{servers.free_port()}")

    async def scenario() -> None:
        async with nowhere.owner(), nowhere.following():
            await nowhere.caught_up()
            await asyncio.to_thread(stock, pair.depot, "shf_2", 1, 2, 3)
            await nowhere.caught_up()
        assert pair.goods("shf_2") == 6

    asyncio.run(scenario())


def test_without_the_owner_the_bus_is_enough(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.relaying() as relay, pair.following():
            async with pair.owner():
                await pair.caught_up()
            await asyncio.to_thread(stock, pair.depot, "shf_1", 1, 2, 3)
            relay.nudge()
            await pair.caught_up()
        assert pair.goods("shf_1") == 6

    asyncio.run(scenario())


def test_a_wiped_bus_is_followed_again(pair: Pair) -> None:
    async def scenario(bus: Nats) -> None:
        wiped = replace(pair, bus_url=bus.url)
        async with wiped.owner(), wiped.relaying() as relay, wiped.following():
            for goods in range(1, 4):
                await asyncio.to_thread(stock, pair.depot, "shf_1", *[goods] * 10)
                relay.nudge()
                await wiped.caught_up()
                bus.kill()
                bus.wipe()
                await asyncio.to_thread(bus.start)
        assert pair.goods("shf_1") == 60

    with servers.nats_server() as bus:
        asyncio.run(scenario(bus))


def test_a_durable_that_delivers_nothing_is_made_anew(pair: Pair) -> None:
    """As when its position is ahead of a stream that lost its end."""

    async def scenario() -> None:
        async with pair.owner(), pair.relaying() as relay, pair.following():
            await pair.subscribed()
            client = await nats.connect(pair.bus_url)
            jetstream = client.jetstream()
            await jetstream.pause_consumer(STREAM, "ledger", "2100-01-01T00:00:00Z")
            await asyncio.to_thread(stock, pair.depot, "shf_1", 5)
            relay.nudge()
            await pair.caught_up()

            async def is_new() -> bool:
                try:
                    return not (await jetstream.consumer_info(STREAM, "ledger")).paused
                except NotFoundError:
                    return False

            await until(is_new)
            await client.close()
        assert pair.goods("shf_1") == 5

    asyncio.run(scenario())
