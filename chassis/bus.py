"""The connection to NATS, and the streams a service declares there.

The bus carries; it does not remember. Whoever uses it must be able to go on without it, so a
lost connection is an ordinary answer (``BusAway``) and never retried inside a call: connecting
again is the caller's next attempt. A server or a stream that is not as declared is refused.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.errors import NotFoundError, ServiceUnavailableError

from chassis.store import Unsafe

log = logging.getLogger(__name__)

SERVER_MIN = (2, 12, 3)
CONNECT_SECONDS = 2
REQUEST_SECONDS = 2.0
CLOSE_SECONDS = 1.0
DAY_SECONDS = 86_400
EVENTS_AGE_SECONDS = 7 * DAY_SECONDS
DEAD_LETTERS_AGE_SECONDS = 90 * DAY_SECONDS
DUPLICATES_SECONDS = 120


# What of a stream must be as declared; the rest may be tuned by whoever runs the servers.
_DECLARED = (
    "subjects",
    "retention",
    "storage",
    "discard",
    "max_age",
    "duplicate_window",
    "deny_delete",
    "deny_purge",
    "num_replicas",
)


class BusAway(Exception):
    """The bus cannot be used now."""


class UnsafeBus(Unsafe):
    """The bus is not what it was declared to be."""


# Everything that means: not now.
BUS_ERRORS = (BusAway, NatsError, TimeoutError, OSError)


def events_stream(service: str, replicas: int = 1) -> StreamConfig:
    name, subjects = f"EVT_{service.upper()}", f"evt.v1.{service}.>"
    return _stream(name, subjects, EVENTS_AGE_SECONDS, replicas)


def dead_letters_stream(service: str, replicas: int = 1) -> StreamConfig:
    name, subjects = f"DLQ_{service.upper()}", f"dlq.v1.{service}.>"
    return _stream(name, subjects, DEAD_LETTERS_AGE_SECONDS, replicas)


class Bus:
    """One connection for everything in this process that uses the bus."""

    def __init__(self, url: str, service: str) -> None:
        parts = [urlsplit(one) for one in url.split(",")]
        self._servers = [f"{part.scheme}://{part.netloc.rpartition('@')[2]}" for part in parts]
        self._user = unquote(parts[0].username) if parts[0].username else None
        self._password = unquote(parts[0].password) if parts[0].password else None
        self._inbox_prefix = f"_INBOX_{self._user}" if self._user else "_INBOX"
        self._name = service
        self._connecting = asyncio.Lock()
        self._client: Client | None = None
        self._jetstream: JetStreamContext | None = None

    async def jetstream(self) -> JetStreamContext:
        """A working connection, made now if there is none."""
        async with self._connecting:
            if self._jetstream is None or self._client is None or not self._client.is_connected:
                await self.close()
                self._client = await self._connect()
                self._jetstream = self._client.jetstream(timeout=REQUEST_SECONDS)
                await self._refuse_unsafe_server(self._client, self._jetstream)
            return self._jetstream

    async def client(self) -> Client:
        await self.jetstream()
        assert self._client is not None
        return self._client

    async def close(self) -> None:
        client, self._client, self._jetstream = self._client, None, None
        if client is not None:
            await _closed(client)

    async def ensure(self, declared: StreamConfig) -> StreamInfo:
        """The stream, made if it is missing; a stream of that name but other kind is refused."""
        jetstream = await self.jetstream()
        assert declared.name is not None
        try:
            info = await jetstream.stream_info(declared.name)
        except NotFoundError:
            info = await jetstream.add_stream(declared)
        wrong = differences(declared, info.config)
        if wrong:
            raise UnsafeBus(f"stream {declared.name} is not as declared: {'; '.join(wrong)}")
        return info

    async def _connect(self) -> Client:
        client = Client()
        try:
            await client.connect(
                self._servers,
                user=self._user,
                password=self._password,
                name=self._name,
                allow_reconnect=False,
                # How often a server is tried while connecting, and the pause in between.
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=CONNECT_SECONDS,
                ping_interval=5,
                inbox_prefix=self._inbox_prefix.encode(),
                error_cb=_note,
            )
        except (NatsError, OSError, TimeoutError) as error:
            await _closed(client)
            raise BusAway(f"NATS is away: {error}") from error
        except asyncio.CancelledError:
            await _closed(client)
            raise
        return client

    async def _refuse_unsafe_server(self, client: Client, jetstream: JetStreamContext) -> None:
        version = client.connected_server_version
        if (version.major, version.minor, version.patch) < SERVER_MIN:
            wanted = ".".join(map(str, SERVER_MIN))
            raise UnsafeBus(f"NATS is {version}; versions before {wanted} lose acked messages")
        try:
            await jetstream.account_info()
        except ServiceUnavailableError:
            raise UnsafeBus("NATS runs without JetStream, or this user has none") from None


def differences(declared: StreamConfig, found: StreamConfig) -> list[str]:
    pairs = ((name, getattr(declared, name), getattr(found, name)) for name in _DECLARED)
    return [
        f"{name} is {_plain(has)}, not {_plain(want)}" for name, want, has in pairs if want != has
    ]


def _stream(name: str, subjects: str, max_age: int, replicas: int) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=[subjects],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        max_age=max_age,
        duplicate_window=DUPLICATES_SECONDS,
        num_replicas=replicas,
        deny_delete=True,
        deny_purge=True,
    )


def _plain(value: Any) -> str:
    return str(getattr(value, "value", value))


async def _closed(client: Client) -> None:
    with suppress(*BUS_ERRORS):
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()


async def _note(error: Exception) -> None:
    # Also how a refused permission shows: the server answers nothing, the call times out.
    log.warning("the bus reports: %s", error)
