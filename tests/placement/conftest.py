"""One database for all tests of placement; whoever uses it begins by emptying it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from leasehold.launcher.embedded import Postgres
from tests.placement.serving import Play, Scenario, serving

NAME = "placement_tests"


@pytest.fixture(scope="package")
def database(postgres: Postgres) -> Iterator[str]:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"create database {NAME}".encode())
        yield urlunsplit(urlsplit(postgres.url)._replace(path=f"/{NAME}"))
        connection.execute(f"drop database {NAME} with (force)".encode())


@pytest.fixture
def play(tmp_path: Path, database: str) -> Play:
    """Runs a scenario against a service of its own."""

    def run(scenario: Scenario, **chosen: Any) -> None:
        async def main() -> None:
            async with serving(tmp_path, database, **chosen) as service:
                await scenario(service)

        asyncio.run(main())

    return run
