"""The servers every test may use. Each test gets a database of its own and an empty bus."""

import asyncio
import itertools
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import nats
import psycopg
import pytest

from leasehold.launcher.embedded import Nats, Postgres
from tests import servers

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with servers.postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def nats_server() -> Iterator[Nats]:
    with servers.nats_server() as server:
        yield server


@pytest.fixture
def database_url(postgres: Postgres) -> Iterator[str]:
    """An empty database; the role is the superuser."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        yield urlunsplit(urlsplit(postgres.url)._replace(path=f"/{name}"))
        connection.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def nats_url(nats_server: Nats) -> str:
    """A bus without streams."""
    asyncio.run(_remove_streams(nats_server.url))
    return nats_server.url


async def _remove_streams(url: str) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream()
    for stream in await jetstream.streams_info():
        await jetstream.delete_stream(str(stream.config.name))
    await client.close()
