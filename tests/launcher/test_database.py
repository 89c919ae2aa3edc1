"""What each service may do in PostgreSQL, asked of a real server."""

from collections.abc import Iterator

import psycopg
import pytest

from leasehold.launcher import database
from leasehold.launcher.embedded import Postgres
from leasehold.launcher.ports import SERVICES, Ports, free_base
from leasehold.launcher.state import CannotStart
from tests import servers

PASSWORDS = {service: f"{service}/@:secret" for service in SERVICES}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with servers.postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def urls(server: Postgres) -> dict[str, str]:
    url = database.create_database(server.url)
    database.provision(url, PASSWORDS)
    return database.provision(database.create_database(server.url), PASSWORDS)  # changes nothing


def test_a_service_adds_to_its_log_and_reads_it(urls: dict[str, str]) -> None:
    with psycopg.connect(urls["billing"], autocommit=True) as connection:
        connection.execute(
            "insert into billing.events values (1, 0, 1, 'a', 't', '', '', '', '{}', '')"
        )
        assert connection.execute("select count(*) from billing.events").fetchone() == (1,)


@pytest.mark.parametrize(
    "forbidden",
    [
        "update billing.events set data = ''",
        "delete from billing.events",
        "truncate billing.events",
        "drop table billing.events",
        "alter table billing.events disable trigger all",
        "update billing.commands set answer = ''",
        "delete from billing.commands",
        "create table billing.mine ()",
        "select * from placement.events",
        "insert into placement.events values (1, 0, 1, 'a', 't', '', '', '', '{}', '')",
        "set role leasehold_placement",
        "set role postgres",
        "create role friend",
    ],
)
def test_a_service_may_not(urls: dict[str, str], forbidden: str) -> None:
    with (
        psycopg.connect(urls["billing"], autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(forbidden)


def test_a_service_cannot_log_in_as_another(urls: dict[str, str]) -> None:
    stolen = urls["billing"].replace("leasehold_billing", "leasehold_placement")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(stolen)


def test_a_role_that_may_not_create_roles_serves_all(server: Postgres) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create role guest login password 'guest'")
        connection.execute("create database guest owner guest")
    url = server.url_for("guest", "guest", "guest")
    assert database.provision(url, PASSWORDS) == dict.fromkeys(SERVICES, url)
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from admission.events").fetchone() == (0,)


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(CannotStart, match="cannot be used") as refusal:
        database.provision(f"postgresql://me:hidden@127.0.0.1:{Ports(free_base()).postgres}/x", {})
    assert "hidden" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
