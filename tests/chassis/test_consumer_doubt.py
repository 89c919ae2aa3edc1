"""The consumer does not trust the bus, and does not follow an owner with another history."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chassis import canonical
from chassis.events import Recorded
from tests.chassis.shelf import Depot
from tests.delivery.pair import Pair, metric, pair_on, stream, until
from tests.delivery.rig import core, mount, stock

MODULE = "xmlrpc.server"


@pytest.fixture
def pair(database_url: str, nats_url: str, tmp_path: Path) -> Iterator[Pair]:
    with pair_on(database_url, nats_url, tmp_path) as running:
        yield running


# What somebody on the way may do to an event: other data, or other headers.
DAMAGES: list[tuple[bytes | None, dict[str, Any]]] = [
    (b"\x00 not JSON", {}),
    (b"{}", {}),
    (b"[" * 100_000, {}),
    (None, {"ce_position": None}),
    (None, {"ce_prev": None}),
    (None, {"ce_hash": None}),
    (None, {"ce_incarnation": "another database"}),
    (None, {"ce_hash": "00" * 32}),
    (None, {"ce_position": "1000000000"}),
    (None, {"ce_position": "1000000001", "ce_prev": "1000000000"}),
    (None, {"ce_position": "2", "ce_prev": "1"}),
    (None, {"ce_position": "-3"}),
    (None, {"ce_seal": None, "ce_sealer": None}),
    (None, {"ce_seal": None}),
    (None, {"ce_sealer": None}),
    (None, {"ce_seal": "AAAA"}),
    (None, {"ce_sealer": "AAAA"}),
]


def test_a_damaged_message_is_replaced_by_what_the_owner_says(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following() as consumer:
            await pair.subscribed()
            for number, (data, changed) in enumerate(DAMAGES, 1):
                await asyncio.to_thread(stock, pair.depot, "shf_1", 1)
                await publish(pair.depot.store.read(number + 1, 1)[0], data, **changed)
                await pair.caught_up()
                assert pair.goods("shf_1") == number, (data, changed)
            assert consumer.halted == ""

    asyncio.run(scenario())


def test_a_forged_event_in_place_of_the_owners_is_refused(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following() as consumer:
            await pair.caught_up()
            await asyncio.to_thread(stock, pair.depot, "shf_1", 7)
            await publish(pair.depot.store.read(2, 1)[0])
            await pair.caught_up()
            before = metric("consumer_refused_total")
            await publish(forged(pair.depot.store.read(2, 1)[0], goods=1_000_000))
            await until(lambda: metric("consumer_refused_total") > before)
            await asyncio.to_thread(stock, pair.depot, "shf_1", 1)
            await publish(pair.depot.store.read(3, 1)[0])
            await pair.caught_up()
            assert consumer.halted == ""
        assert pair.goods("shf_1") == 8

    asyncio.run(scenario())


def test_a_type_that_names_a_module_imports_nothing_and_changes_nothing(pair: Pair) -> None:
    hostile = f"{MODULE}:SimpleXMLRPCServer"

    async def scenario() -> None:
        async with pair.owner(), stream(pair) as publish, pair.following():
            await pair.caught_up()
            events, modules = pair.ledger.store.head().position, set(sys.modules)
            before = metric("consumer_refused_total")
            last = pair.depot.store.read(1, 1)[0]
            event = forged(last, topic=hostile)._replace(position=3)
            await publish(event, ce_type=hostile)
            await until(lambda: metric("consumer_refused_total") > before)
            await pair.caught_up()
            assert pair.ledger.store.head().position == events
            assert set(sys.modules) - modules == set()

    assert MODULE not in sys.modules
    asyncio.run(scenario())
    assert MODULE not in sys.modules


def test_an_owner_with_another_history_is_no_longer_followed(pair: Pair, database_url: str) -> None:
    """As after a restore that lost events which were applied here."""

    async def scenario() -> None:
        async with pair.owner(), pair.following():
            await pair.caught_up()
        applied = pair.ledger.store.cursor("depot")
        pair.depot.writer.stop()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("drop schema depot cascade")
        with core(Depot, database_url) as restored:
            mount(restored, "shf_8", "shf_9", "shf_1")
            async with pair.owner(), pair.following() as consumer:
                await until(lambda: consumer.halted != "")
                assert consumer.halted == "its event 2 is not the one that was applied"
        assert pair.ledger.store.cursor("depot") == applied
        assert metric("consumer_halted") == 1

    asyncio.run(scenario())


def test_an_owner_that_forgot_its_last_events_is_no_longer_followed(
    pair: Pair, database_url: str
) -> None:
    async def scenario() -> None:
        async with pair.owner(), pair.following():
            await pair.caught_up()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("update depot.heads set position = 1")
        async with pair.owner(), pair.following() as consumer:
            await until(lambda: consumer.halted != "")
            assert consumer.halted == "its log ends at 1, 2 was applied"

    asyncio.run(scenario())


def test_a_changed_byte_in_the_owners_log_is_not_applied(pair: Pair, database_url: str) -> None:
    stock(pair.depot, "shf_1", 1)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "update depot.events set data = convert_to(replace(convert_from(data, 'utf8'),"
            " '\"goods\":1', '\"goods\":9'), 'utf8') where position = 3"
        )

    async def scenario() -> None:
        async with pair.owner(), pair.following() as consumer:
            await until(lambda: consumer.halted != "")
            assert consumer.halted == "its event 3 does not continue what was applied"
        assert pair.goods("shf_1") == 0

    asyncio.run(scenario())


def test_an_owner_that_moved_with_its_history_is_followed_on(pair: Pair, database_url: str) -> None:
    """A promoted replica is another incarnation of the same history."""

    async def scenario() -> None:
        async with pair.owner(), pair.following():
            await pair.caught_up()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("update ledger.cursors set incarnation = 'before the move'")
        async with pair.owner(), stream(pair) as publish, pair.following() as consumer:
            await asyncio.to_thread(stock, pair.depot, "shf_1", 7)
            await publish(pair.depot.store.read(2, 1)[0])
            await pair.caught_up()
            assert consumer.halted == ""
        assert pair.goods("shf_1") == 7

    asyncio.run(scenario())


def forged(row: Recorded, *, topic: str = "", **facts: int) -> Recorded:
    """An event that chains to ``row``'s predecessors as far as its author could know."""
    data = canonical.loads(row.data) | facts
    data["meta"]["topic"] = topic or row.topic
    changed = canonical.dumps(data)
    return row._replace(data=changed, hash=canonical.chained(row.hash, changed))
