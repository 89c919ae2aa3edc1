"""The bus: what it refuses, how it comes back, and what a message on it looks like."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from nats.js.api import StorageType

from chassis import canonical
from chassis.bus import Bus, BusAway, UnsafeBus, dead_letters_stream, events_stream
from chassis.envelope import Malformed, Origin, headers, opened, subject
from chassis.events import Recorded
from tests import servers
from tests.waiting import wait_until

ORIGIN = Origin("depot", 0, "db-1")


def test_a_declared_stream_is_made_once_and_found_again(nats_url: str) -> None:
    async def scenario(bus: Bus) -> None:
        made = await bus.ensure(events_stream("depot"))
        assert made.config.subjects == ["evt.v1.depot.>"]
        assert made.config.deny_delete
        assert made.config.deny_purge
        assert (await bus.ensure(events_stream("depot"))).created == made.created
        assert (await bus.ensure(dead_letters_stream("depot"))).config.name == "DLQ_DEPOT"

    on_bus(nats_url, scenario)


def test_a_stream_that_is_not_as_declared_is_refused_with_the_difference(nats_url: str) -> None:
    async def scenario(bus: Bus) -> None:
        careless = events_stream("depot")
        careless.storage, careless.deny_delete = StorageType.MEMORY, False
        await (await bus.jetstream()).add_stream(careless)
        with pytest.raises(UnsafeBus) as refusal:
            await bus.ensure(events_stream("depot"))
        assert "storage is memory, not file" in str(refusal.value)
        assert "deny_delete is False, not True" in str(refusal.value)

    on_bus(nats_url, scenario)


def test_a_server_without_jetstream_is_refused() -> None:
    async def scenario(bus: Bus) -> None:
        with pytest.raises(UnsafeBus, match="without JetStream"):
            await bus.jetstream()

    without = "accounts: { PLAIN: { users: [ { user: plain, password: secret } ] } }"
    with servers.nats_server(without) as server:
        on_bus(server.url_for("plain", "secret"), scenario)


def test_a_server_of_an_older_version_is_refused() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.12.2","max_payload":1048576,"headers":true}\r\n')
        while line := await reader.readline():
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with server:
            bus = Bus(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", "depot")
            with pytest.raises(UnsafeBus, match="before 2.12.3"):
                await bus.jetstream()
            await bus.close()

    asyncio.run(scenario())


def test_a_user_reads_replies_only_under_its_own_prefix() -> None:
    async def scenario(bus: Bus) -> None:
        assert (await bus.client()).new_inbox().startswith("_INBOX_billing.")
        await bus.ensure(events_stream("billing"))

    one = '{ user: billing, password: "p@ss", permissions: { subscribe: ["_INBOX_billing.>"] } }'
    with servers.nats_server(f"authorization: {{ users: [ {one} ] }}") as server:
        on_bus(server.url_for("billing", "p@ss"), scenario)


def test_the_bus_is_away_while_its_server_is_and_comes_back_with_it() -> None:
    with servers.nats_server() as server:

        async def scenario(bus: Bus) -> None:
            await bus.jetstream()
            server.kill()
            with pytest.raises(BusAway):
                await disconnected(bus)
            server.start()
            await bus.ensure(events_stream("depot"))

        on_bus(server.url, scenario)


def test_a_message_carries_the_stored_bytes_under_cloudevents_headers() -> None:
    event = an_event()
    sent = headers(ORIGIN, event)
    assert subject(event) == "evt.v1.depot.shelf.stocked.ten_1.shl_1"
    assert sent["ce-specversion"] == "1.0"
    assert sent["ce-id"] == "depot/0/7"
    assert sent["ce-source"] == "/leasehold/depot/0"
    assert sent["ce-type"] == "depot.shelf.stocked"
    assert sent["ce-subject"] == "shl_1"
    assert sent["ce-time"] == "1970-01-01T00:00:01.000001Z"
    assert sent["ce-prev"] == "6"
    assert sent["Nats-Msg-Id"] == f"depot:0:db-1:7:{event.hash.hex()}"
    assert opened("depot", sent, event.data).event == event


@pytest.mark.parametrize(
    ("tenant_id", "aggregate_id", "tokens"),
    [("", "shl_1", "_.shl_1"), ("a.b c", "*>", "a_b_c.__"), ("tén\r\n", "x", "t_n__.x")],
)
def test_a_subject_always_has_seven_tokens(tenant_id: str, aggregate_id: str, tokens: str) -> None:
    event = an_event()._replace(tenant_id=tenant_id, aggregate_id=aggregate_id)
    assert subject(event) == f"evt.v1.depot.shelf.stocked.{tokens}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ce-position", "７"),
        ("ce-position", "-1"),
        ("ce-position", "7 "),
        ("ce-position", "9" * 40),
        ("ce-prev", ""),
        ("ce-hash", "00"),
        ("ce-hash", "é" * 64),
        ("ce-hash", None),
        ("ce-incarnation", None),
    ],
)
def test_a_message_with_damaged_headers_is_malformed(name: str, value: str | None) -> None:
    sent: dict[str, str] = headers(ORIGIN, an_event())
    if value is None:
        del sent[name]
    else:
        sent[name] = value
    with pytest.raises(Malformed):
        opened("depot", sent, an_event().data)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"meta":3}', b'{"meta":{}}', b"\xff", b"[" * 100_000]
    + [an_data.replace(b"depot.", b"other.") for an_data in [b'{"meta":{"topic":"depot.x.y"}}']],
)
def test_a_message_with_data_of_nobody_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        opened("depot", headers(ORIGIN, an_event()), data)


def an_event() -> Recorded:
    meta = {
        "actor": "",
        "aggregate_id": "shl_1",
        "at": 1_000_001,
        "causation_id": "",
        "correlation_id": "cor_1",
        "tenant_id": "ten_1",
        "topic": "depot.shelf.stocked",
        "version": 2,
    }
    data = canonical.dumps({"goods": 3, "meta": meta})
    digest = canonical.chained(canonical.GENESIS, data)
    return Recorded(
        7, "shl_1", 2, "depot.shelf.stocked", "ten_1", "cor_1", "", data=data, hash=digest
    )


def on_bus(url: str, scenario: Callable[[Bus], Awaitable[None]]) -> None:
    async def run() -> None:
        bus = Bus(url, "depot")
        try:
            await scenario(bus)
        finally:
            await bus.close()

    asyncio.run(run())


async def disconnected(bus: Bus) -> None:
    """Asks until the loss of the connection has been noticed, which then raises."""

    async def is_away() -> bool:
        await bus.jetstream()
        return False

    await wait_until(is_away, what="the loss is noticed")
