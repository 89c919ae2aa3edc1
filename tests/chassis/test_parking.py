"""Events that cannot be applied: set aside with an alarm, and applied once when they can be."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from tests.delivery.ledger import UNLUCKY
from tests.delivery.pair import Pair, metric, pair_on, until
from tests.delivery.rig import stock


@pytest.fixture
def pair(database_url: str, nats_url: str, tmp_path: Path) -> Iterator[Pair]:
    with pair_on(database_url, nats_url, tmp_path) as running:
        yield running


def test_a_poison_event_is_parked_and_only_its_aggregate_waits(pair: Pair) -> None:
    pair.ledger.app.superstitious = True

    async def scenario() -> None:
        async with pair.owner(), pair.relaying() as relay, pair.following():
            await pair.caught_up()
            await asyncio.to_thread(stock, pair.depot, "shf_1", 1, UNLUCKY, 2)
            await asyncio.to_thread(stock, pair.depot, "shf_2", 5)
            relay.nudge()
            await pair.caught_up()
        assert (pair.goods("shf_1"), pair.goods("shf_2")) == (1, 5)
        parked = pair.ledger.store.parked("depot")
        assert [(one.position, one.aggregate_id) for one in parked] == [(4, "shf_1"), (5, "shf_1")]
        assert "13 goods are too many" in parked[0].cause
        assert parked[1].cause == "an earlier event of its aggregate is parked"
        assert metric("parked_events") == 2

    asyncio.run(scenario())


def test_a_parked_event_is_copied_to_the_dead_letters_once(pair: Pair) -> None:
    pair.ledger.app.superstitious = True
    stock(pair.depot, "shf_1", UNLUCKY)

    async def scenario() -> None:
        client = await nats.connect(pair.bus_url)
        jetstream = client.jetstream()
        for _ in range(2):
            async with pair.owner(), pair.relaying(), pair.following():
                await pair.caught_up()

                async def copied() -> bool:
                    streams = {s.config.name: s for s in await jetstream.streams_info()}
                    return "DLQ_LEDGER" in streams and streams["DLQ_LEDGER"].state.messages > 0

                await until(copied)
        last = await jetstream.get_last_msg("DLQ_LEDGER", "dlq.v1.ledger.depot.3")
        assert last.data == pair.depot.store.read(2, 1)[0].data
        assert (last.headers or {})["ce-id"] == "depot/0/3"
        assert (await jetstream.stream_info("DLQ_LEDGER")).state.messages == 1
        await client.close()

    asyncio.run(scenario())


def test_redriving_applies_each_parked_event_once_and_in_order(pair: Pair) -> None:
    pair.ledger.app.superstitious = True
    stock(pair.depot, "shf_1", 1, UNLUCKY, 2, UNLUCKY, 3)

    async def scenario() -> None:
        async with pair.owner(), pair.following() as consumer:
            await pair.caught_up()
            assert await consumer.redrive() == 0
            assert len(pair.ledger.store.parked("depot")) == 4
            pair.ledger.app.superstitious = False
            both = await asyncio.gather(consumer.redrive(), consumer.redrive())
            assert sum(both) == 4
            assert pair.ledger.store.parked("depot") == []
            assert metric("parked_events") == 0
            await asyncio.to_thread(stock, pair.depot, "shf_1", 4)
            await pair.caught_up()
        assert pair.goods("shf_1") == 1 + UNLUCKY + 2 + UNLUCKY + 3 + 4

    asyncio.run(scenario())


def test_a_restarted_consumer_still_knows_who_waits(pair: Pair) -> None:
    pair.ledger.app.superstitious = True
    stock(pair.depot, "shf_1", UNLUCKY)

    async def scenario() -> None:
        async with pair.owner(), pair.following():
            await pair.caught_up()
        pair.ledger.app.superstitious = False
        stock(pair.depot, "shf_1", 1)
        stock(pair.depot, "shf_2", 2)
        async with pair.owner(), pair.following() as consumer:
            await pair.caught_up()
            assert (pair.goods("shf_1"), pair.goods("shf_2")) == (0, 2)
            assert await consumer.redrive() == 2
        assert pair.goods("shf_1") == UNLUCKY + 1

    asyncio.run(scenario())
