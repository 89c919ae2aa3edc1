"""The relay on real PostgreSQL and NATS: the stream equals the log, whatever happens to either."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack

import nats
import psycopg
import pytest

from chassis import relay as relay_module
from chassis.clock import SECOND, now
from chassis.metrics import REGISTRY
from chassis.relay import Relay
from leasehold.launcher.embedded import Nats
from tests import servers
from tests.chassis.shelf import Depot
from tests.delivery.rig import Core, core, mount, relaying, stock
from tests.delivery.streams import STREAM, all_messages, stream_of
from tests.waiting import let_pass_async


@pytest.fixture
def depot(database_url: str) -> Iterator[Core[Depot]]:
    with core(Depot, database_url) as running:
        mount(running, "shf_1")
        yield running


@pytest.fixture
def own_nats() -> Iterator[Nats]:
    """A server that may be killed."""
    with servers.nats_server() as server:
        yield server


def test_the_stream_holds_the_stored_bytes_in_order(depot: Core[Depot], nats_url: str) -> None:
    stock(depot, "shf_1", *range(1, 1200))

    async def scenario() -> None:
        async with relaying(depot, nats_url):
            messages = await stream_of(depot, nats_url)
        first = messages[0]
        assert first.subject == "evt.v1.depot.shelf.mounted.ten_1.shf_1"
        assert first.headers is not None
        assert first.headers["ce-type"] == "depot.shelf.mounted"
        rows = depot.store.read(0, 2000)
        assert [message.data for message in messages] == [row.data for row in rows]

    asyncio.run(scenario())


def test_a_new_event_is_published_as_soon_as_the_relay_is_nudged(
    depot: Core[Depot], nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "POLL_SECONDS", 60)

    async def scenario() -> None:
        async with relaying(depot, nats_url) as relay:
            await stream_of(depot, nats_url)
            await asyncio.to_thread(stock, depot, "shf_1", 1)
            relay.nudge()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_a_relay_that_dies_anywhere_leaves_no_gap_and_no_repeat(
    depot: Core[Depot], nats_url: str
) -> None:
    async def scenario() -> None:
        loading = asyncio.create_task(asyncio.to_thread(stock, depot, "shf_1", *[1] * 3000))
        for seed in range(10):
            async with relaying(depot, nats_url):
                await let_pass_async(random.Random(seed).uniform(0, 0.06))
        await loading
        async with relaying(depot, nats_url):
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_three_relays_at_once_publish_every_event_once(depot: Core[Depot], nats_url: str) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            relays: list[Relay] = [
                await stack.enter_async_context(relaying(depot, nats_url)) for _ in range(3)
            ]
            for _ in range(20):
                await asyncio.to_thread(stock, depot, "shf_1", *[1] * 100)
                for relay in relays:
                    relay.nudge()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_a_server_that_is_killed_leaves_no_gap_and_no_repeat(
    depot: Core[Depot], own_nats: Nats
) -> None:
    async def scenario() -> None:
        async with relaying(depot, own_nats.url):
            for seed in range(5):
                await asyncio.to_thread(stock, depot, "shf_1", *[1] * 500)
                await let_pass_async(random.Random(seed).uniform(0, 0.05))
                own_nats.kill()
                await asyncio.to_thread(own_nats.start)
            await stream_of(depot, own_nats.url)

    asyncio.run(scenario())


def test_a_lost_stream_is_published_again_from_the_log(depot: Core[Depot], own_nats: Nats) -> None:
    stock(depot, "shf_1", *[1] * 100)

    async def scenario() -> None:
        async with relaying(depot, own_nats.url):
            await stream_of(depot, own_nats.url)
            own_nats.kill()
            own_nats.wipe()
            await asyncio.to_thread(own_nats.start)
            assert len(await stream_of(depot, own_nats.url)) == 101

    asyncio.run(scenario())


def test_a_stream_deleted_at_rest_is_noticed(
    depot: Core[Depot], nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "LOOK_AGAIN_SECONDS", 0.5)

    async def scenario() -> None:
        async with relaying(depot, nats_url):
            await stream_of(depot, nats_url)
            client = await nats.connect(nats_url)
            await client.jetstream().delete_stream(STREAM)
            await client.close()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_a_stream_of_another_history_is_replaced_with_an_alarm(
    depot: Core[Depot], database_url: str, nats_url: str
) -> None:
    """As after a restore to an earlier point: the stream knows events that the log lost."""
    stock(depot, "shf_1", 1, 2, 3)
    before = rolls()

    async def scenario() -> None:
        async with relaying(depot, nats_url):
            await stream_of(depot, nats_url)
        depot.writer.stop()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("drop schema depot cascade")
        with core(Depot, database_url) as restored:
            mount(restored, "shf_9")
            async with relaying(restored, nats_url):
                messages = await stream_of(restored, nats_url)
                assert messages[0].subject.endswith("shf_9")

    asyncio.run(scenario())
    assert rolls() > before


def test_a_message_of_nobody_at_the_end_of_the_stream_does_not_stop_the_relay(
    depot: Core[Depot], nats_url: str
) -> None:
    async def scenario() -> None:
        async with relaying(depot, nats_url) as relay:
            await stream_of(depot, nats_url)
            client = await nats.connect(nats_url)
            await client.jetstream().publish("evt.v1.depot.x.y.z.0", b"hostile")
            await client.close()
            await asyncio.to_thread(stock, depot, "shf_1", 1, 2, 3)
            relay.nudge()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_what_the_bus_cannot_carry_is_left_out_and_leaves_a_visible_gap(
    depot: Core[Depot], nats_url: str
) -> None:
    stock(depot, "shf_1", 1)
    depot.writer.command(lambda at: depot.app.mount("shf_2", "x" * 1_100_000, 1, at=at)).result(5)
    stock(depot, "shf_1", 2)

    async def scenario() -> None:
        async with relaying(depot, nats_url):
            messages = await all_messages(nats_url, 3)
        assert [(m.headers or {})["ce-position"] for m in messages] == ["1", "2", "4"]
        assert (messages[-1].headers or {})["ce-prev"] == "3"

    asyncio.run(scenario())


def test_events_older_than_the_stream_would_keep_are_not_published_again(
    database_url: str, nats_url: str
) -> None:
    long_ago = now() - 8 * 24 * 3600 * SECOND

    async def scenario() -> None:
        async with relaying(depot, nats_url):
            messages = await all_messages(nats_url, 2)
        assert [(m.headers or {})["ce-position"] for m in messages] == ["7", "8"]

    with core(Depot, database_url) as depot:
        run = depot.writer.command
        run(lambda _: depot.app.mount("shf_1", "ten_1", 100, at=long_ago)).result(5)
        for _ in range(5):
            run(lambda _: depot.app.stock("shf_1", 1, at=long_ago)).result(5)
        stock(depot, "shf_1", 1, 1)
        asyncio.run(scenario())


def rolls() -> float:
    return REGISTRY.get_sample_value("leasehold_relay_rolls_total") or 0
