"""The relay on real PostgreSQL and NATS: the stream equals the log, whatever happens to either."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import nats
import psycopg
import pytest
from nats.aio.msg import Msg

from chassis import canonical, seal
from chassis import relay as relay_module
from chassis.clock import SECOND, now
from chassis.envelope import SEALER, Origin, headers, opened, subject
from chassis.identity import Identity
from chassis.metrics import REGISTRY
from chassis.relay import Relay
from chassis.seal import Standing
from leasehold.launcher.embedded import Nats
from tests import servers
from tests.chassis.mesh import Mesh
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
def sealer(tmp_path: Path) -> Identity:
    return Mesh(tmp_path).service("depot")


@pytest.fixture
def own_nats() -> Iterator[Nats]:
    """A server that may be killed."""
    with servers.nats_server() as server:
        yield server


def test_the_stream_holds_the_stored_bytes_in_order(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    stock(depot, "shf_1", *range(1, 1200))

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer):
            messages = await stream_of(depot, nats_url)
        first = messages[0]
        assert first.subject == "evt.v1.depot.shelf.mounted.ten_1.shf_1"
        assert first.headers is not None
        assert first.headers["ce-type"] == "depot.shelf.mounted"
        rows = depot.store.read(0, 2000)
        assert [message.data for message in messages] == [row.data for row in rows]

    asyncio.run(scenario())


def test_the_last_message_of_every_batch_is_sealed_and_a_lone_event_always(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    stock(depot, "shf_1", *[1] * (relay_module.DEPTH + 9))

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer) as relay:
            await stream_of(depot, nats_url)
            await asyncio.to_thread(stock, depot, "shf_1", 1)
            relay.nudge()
            messages = await stream_of(depot, nats_url)
        assert sealed(messages, sealer) == [
            relay_module.DEPTH,
            relay_module.DEPTH + 10,
            relay_module.DEPTH + 11,
        ]

    asyncio.run(scenario())


def test_a_relay_seals_with_the_newest_key_of_its_service(
    depot: Core[Depot], nats_url: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        mesh = Mesh(tmp_path)
        sealer = mesh.service("depot")
        async with relaying(depot, nats_url, sealer) as relay:
            await stream_of(depot, nats_url)
            mesh.service("depot")
            await asyncio.to_thread(stock, depot, "shf_1", 1)
            relay.nudge()
            messages = await stream_of(depot, nats_url)
        assert sealed(messages, sealer) == [1, 2]
        shown = [(message.headers or {})[SEALER] for message in messages]
        assert shown[0] != shown[1]

    asyncio.run(scenario())


def test_the_last_message_that_the_bus_can_carry_is_sealed(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    stock(depot, "shf_1", 1)
    depot.writer.command(lambda at: depot.app.mount("shf_2", "x" * 1_100_000, 1, at=at)).result(5)

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer):
            messages = await all_messages(nats_url, 2)
        assert sealed(messages, sealer) == [2]

    asyncio.run(scenario())


def test_a_new_event_is_published_as_soon_as_the_relay_is_nudged(
    depot: Core[Depot], nats_url: str, monkeypatch: pytest.MonkeyPatch, sealer: Identity
) -> None:
    monkeypatch.setattr(relay_module, "POLL_SECONDS", 60)

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer) as relay:
            await stream_of(depot, nats_url)
            await asyncio.to_thread(stock, depot, "shf_1", 1)
            relay.nudge()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_a_relay_that_dies_anywhere_leaves_no_gap_and_no_repeat(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    async def scenario() -> None:
        loading = asyncio.create_task(asyncio.to_thread(stock, depot, "shf_1", *[1] * 3000))
        for seed in range(10):
            async with relaying(depot, nats_url, sealer):
                await let_pass_async(random.Random(seed).uniform(0, 0.06))
        await loading
        async with relaying(depot, nats_url, sealer):
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_three_relays_at_once_publish_every_event_once(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            relays: list[Relay] = [
                await stack.enter_async_context(relaying(depot, nats_url, sealer)) for _ in range(3)
            ]
            for _ in range(20):
                await asyncio.to_thread(stock, depot, "shf_1", *[1] * 100)
                for relay in relays:
                    relay.nudge()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_a_server_that_is_killed_leaves_no_gap_and_no_repeat(
    depot: Core[Depot], own_nats: Nats, sealer: Identity
) -> None:
    async def scenario() -> None:
        async with relaying(depot, own_nats.url, sealer):
            for seed in range(5):
                await asyncio.to_thread(stock, depot, "shf_1", *[1] * 500)
                await let_pass_async(random.Random(seed).uniform(0, 0.05))
                own_nats.kill()
                await asyncio.to_thread(own_nats.start)
            await stream_of(depot, own_nats.url)

    asyncio.run(scenario())


def test_a_lost_stream_is_published_again_from_the_log(
    depot: Core[Depot], own_nats: Nats, sealer: Identity
) -> None:
    stock(depot, "shf_1", *[1] * 100)

    async def scenario() -> None:
        async with relaying(depot, own_nats.url, sealer):
            await stream_of(depot, own_nats.url)
            own_nats.kill()
            own_nats.wipe()
            await asyncio.to_thread(own_nats.start)
            assert len(await stream_of(depot, own_nats.url)) == 101

    asyncio.run(scenario())


def test_a_stream_deleted_at_rest_is_noticed(
    depot: Core[Depot], nats_url: str, monkeypatch: pytest.MonkeyPatch, sealer: Identity
) -> None:
    monkeypatch.setattr(relay_module, "LOOK_AGAIN_SECONDS", 0.5)

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer):
            await stream_of(depot, nats_url)
            client = await nats.connect(nats_url)
            await client.jetstream().delete_stream(STREAM)
            await client.close()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_a_stream_of_another_history_is_replaced_with_an_alarm(
    depot: Core[Depot], database_url: str, nats_url: str, sealer: Identity
) -> None:
    """As after a restore to an earlier point: the stream knows events that the log lost."""
    stock(depot, "shf_1", 1, 2, 3)
    before = rolls()

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer):
            await stream_of(depot, nats_url)
        depot.writer.stop()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("drop schema depot cascade")
        with core(Depot, database_url) as restored:
            mount(restored, "shf_9")
            async with relaying(restored, nats_url, sealer):
                messages = await stream_of(restored, nats_url)
                assert messages[0].subject.endswith("shf_9")

    asyncio.run(scenario())
    assert rolls() > before


def test_a_message_of_nobody_at_the_end_of_the_stream_does_not_stop_the_relay(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer) as relay:
            await stream_of(depot, nats_url)
            client = await nats.connect(nats_url)
            await client.jetstream().publish("evt.v1.depot.x.y.z.0", b"hostile")
            await client.close()
            await asyncio.to_thread(stock, depot, "shf_1", 1, 2, 3)
            relay.nudge()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())


def test_a_forgery_in_the_place_of_the_next_event_is_replaced_by_it(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    """Also when the next batch comes before the relay looks at the stream again."""
    before = rolls()

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer) as relay:
            await stream_of(depot, nats_url)
            (last,) = depot.store.read(0, 1)
            forgery = last._replace(position=2, hash=canonical.chained(last.hash, last.data))
            named = headers(Origin("depot", 0, depot.store.incarnation()), forgery)
            client = await nats.connect(nats_url)
            await client.jetstream().publish(subject(forgery), forgery.data, headers=named)
            await client.close()
            await asyncio.to_thread(stock, depot, "shf_1", 1, 2, 3)
            relay.nudge()
            await stream_of(depot, nats_url)

    asyncio.run(scenario())
    assert rolls() > before


def test_every_message_names_the_place_that_it_may_take(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    """By number, too: after a while the server takes a message of a known name again."""
    stock(depot, "shf_1", 1, 2)

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer):
            messages = await stream_of(depot, nats_url)
        sent = [message.headers or {} for message in messages]
        assert [one["Nats-Expected-Last-Sequence"] for one in sent] == ["0", "1", "2"]
        names = [one["Nats-Msg-Id"] for one in sent]
        assert [one.get("Nats-Expected-Last-Msg-Id") for one in sent] == [None, *names[:-1]]

    asyncio.run(scenario())


def test_what_the_bus_cannot_carry_is_left_out_and_leaves_a_visible_gap(
    depot: Core[Depot], nats_url: str, sealer: Identity
) -> None:
    stock(depot, "shf_1", 1)
    depot.writer.command(lambda at: depot.app.mount("shf_2", "x" * 1_100_000, 1, at=at)).result(5)
    stock(depot, "shf_1", 2)

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer):
            messages = await all_messages(nats_url, 3)
        assert [(m.headers or {})["ce-position"] for m in messages] == ["1", "2", "4"]
        assert (messages[-1].headers or {})["ce-prev"] == "3"

    asyncio.run(scenario())


def test_events_older_than_the_stream_would_keep_are_not_published_again(
    database_url: str, nats_url: str, sealer: Identity
) -> None:
    long_ago = now() - 8 * 24 * 3600 * SECOND

    async def scenario() -> None:
        async with relaying(depot, nats_url, sealer):
            messages = await all_messages(nats_url, 2)
        assert [(m.headers or {})["ce-position"] for m in messages] == ["7", "8"]

    with core(Depot, database_url) as depot:
        run = depot.writer.command
        run(lambda _: depot.app.mount("shf_1", "ten_1", 100, at=long_ago)).result(5)
        for _ in range(5):
            run(lambda _: depot.app.stock("shf_1", 1, at=long_ago)).result(5)
        stock(depot, "shf_1", 1, 1)
        asyncio.run(scenario())


def sealed(messages: list[Msg], sealer: Identity) -> list[int]:
    """The positions of the messages that carry a seal, each of which must be good."""
    envelopes = [opened("depot", message.headers, message.data) for message in messages]
    found = [envelope for envelope in envelopes if envelope.seal]
    trust = sealer.credentials().trust
    for one in found:
        assert seal.standing("depot", one, trust, now()) is Standing.GOOD
    return [envelope.event.position for envelope in found]


def rolls() -> float:
    return REGISTRY.get_sample_value("leasehold_relay_rolls_total") or 0
