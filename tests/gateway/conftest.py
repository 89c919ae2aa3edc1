"""One gateway for all tests of its API; each test brings tenants of its own."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from leasehold.launcher.embedded import Postgres
from tests.gateway.rig import Rig


@pytest.fixture(scope="session")
def rig(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("create database gateway_api")
    url = urlunsplit(urlsplit(postgres.url)._replace(path="/gateway_api"))
    folder: Path = tmp_path_factory.mktemp("gateway")
    with Rig(folder, url).running() as rig:
        yield rig
