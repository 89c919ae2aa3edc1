"""The servers every test may use. Each test finds an empty database and an empty bus."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import nats
import psycopg
import pytest
from psycopg import sql

from leasehold.launcher.embedded import Nats, Postgres
from tests import servers


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with servers.postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def nats_server() -> Iterator[Nats]:
    with servers.nats_server() as server:
        yield server


@pytest.fixture
def database_url(postgres: Postgres) -> str:
    """An empty database; the role is the superuser.

    It is the same one each time, emptied: a new one would cost two checkpoints for each test.
    """
    url = urlunsplit(urlsplit(postgres.url)._replace(path="/test"))
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        if not connection.execute("select 1 from pg_database where datname = 'test'").fetchone():
            connection.execute("create database test")
        connection.execute("alter database test reset all")
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'test'"
        )
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "select nspname from pg_namespace where nspname !~ '^pg_' and nspname not in"
            " ('information_schema', 'public')"
        ).fetchall()
        for (name,) in rows:
            connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
    return url


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
