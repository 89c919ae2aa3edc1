"""What each user may do on NATS, asked of a real server with our configuration."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.client import Client

from chassis.bus import Bus, dead_letters_stream, events_stream
from leasehold.launcher.bus import USERS, users_configuration
from leasehold.launcher.embedded import Nats
from tests import servers

PASSWORDS = {user: f"{user}-password" for user in USERS}


@pytest.fixture(scope="module")
def server() -> Iterator[Nats]:
    with servers.nats_server(users_configuration(PASSWORDS)) as server:
        yield server


def test_a_service_keeps_its_streams_and_reads_the_others(server: Nats) -> None:
    async def scenario() -> None:
        await declare_streams(server)
        async with connected(server, "placement") as placement:
            await placement.jetstream().publish("evt.v1.placement.lease.bound.t.l", b"{}")
        async with connected(server, "billing") as billing:
            stream = billing.jetstream()
            await stream.publish("dlq.v1.billing.placement", b"{}")
            last = await stream.get_last_msg("EVT_PLACEMENT", "evt.v1.placement.>")
            assert last.data == b"{}"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "subject",
    [
        "evt.v1.placement.lease.bound.t.l",
        "dlq.v1.placement.billing",
        "$JS.API.STREAM.DELETE.EVT_PLACEMENT",
        "$JS.API.STREAM.PURGE.EVT_BILLING",
        "$JS.API.STREAM.UPDATE.EVT_PLACEMENT",
        "$JS.API.STREAM.CREATE.ANYTHING",
        "$JS.API.STREAM.MSG.DELETE.EVT_BILLING",
        "$JS.API.STREAM.MSG.GET.DLQ_PLACEMENT",
        "$JS.API.CONSUMER.DELETE.EVT_PLACEMENT.admission",
        "$JS.API.CONSUMER.MSG.NEXT.EVT_PLACEMENT.admission",
        "$JS.ACK.EVT_PLACEMENT.admission.1.1.1.1.0",
        "_INBOX_placement.reply",
        "anything",
    ],
)
def test_billing_may_not_publish(server: Nats, subject: str) -> None:
    assert "permissions violation for publish" in asyncio.run(complaint(server, "billing", subject))


@pytest.mark.parametrize("subject", [">", "evt.v1.>", "_INBOX.>", "_INBOX_placement.>", "$JS.>"])
def test_billing_may_not_listen_in(server: Nats, subject: str) -> None:
    said = asyncio.run(complaint(server, "billing", listen=subject))
    assert "permissions violation for subscription" in said


@pytest.mark.parametrize("subject", ["evt.v1.billing.x.y.t.i", "$JS.API.STREAM.CREATE.EVT_BILLING"])
def test_the_operator_only_reads(server: Nats, subject: str) -> None:
    said = asyncio.run(complaint(server, "operator", subject))
    assert "permissions violation for publish" in said


def test_the_operator_reads_every_stream(server: Nats) -> None:
    async def scenario() -> None:
        await declare_streams(server)
        async with connected(server, "operator") as operator:
            for stream in ("EVT_BILLING", "EVT_PLACEMENT", "DLQ_BILLING"):
                assert (await operator.jetstream().stream_info(stream)).config.name == stream

    asyncio.run(scenario())


@pytest.mark.parametrize(("user", "password"), [("billing", "guess"), ("nobody", ""), ("", "")])
def test_strangers_stay_outside(server: Nats, user: str, password: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        login = json.dumps({"user": user, "pass": password, "verbose": False})
        connection.sendall(f"CONNECT {login}\r\nPING\r\n".encode())
        said = connection.makefile().read()
    assert "Authorization Violation" in said


async def declare_streams(server: Nats) -> None:
    for service in ("billing", "placement"):
        bus = Bus(server.url_for(service, PASSWORDS[service]), service)
        await bus.ensure(events_stream(service))
        await bus.ensure(dead_letters_stream(service))
        await bus.close()


async def complaint(server: Nats, user: str, publish: str = "", listen: str = "") -> str:
    """What the server says against it; permission to do it would time out here."""
    said: asyncio.Queue[str] = asyncio.Queue()

    async def note(error: Exception) -> None:
        said.put_nowait(str(error))

    async with connected(server, user, note) as client:
        if publish:
            await client.publish(publish, b"{}")
        else:
            await client.subscribe(listen)
        return await asyncio.wait_for(said.get(), 5)


@asynccontextmanager
async def connected(server: Nats, user: str, note: object = None) -> AsyncIterator[Client]:
    client = await nats.connect(
        server.url_for(user, PASSWORDS[user]),
        allow_reconnect=False,
        inbox_prefix=f"_INBOX_{user}".encode(),
        error_cb=note or ignore,
    )
    try:
        yield client
    finally:
        await client.close()


async def ignore(error: Exception) -> None:
    """The test looks at what the call raises."""
