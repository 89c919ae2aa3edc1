"""The embedded servers: they keep their data, and say in one sentence why they cannot start."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from leasehold.launcher.embedded import Nats, Postgres, StartFailed
from tests.servers import free_port


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Private to whoever runs the tests, like a home folder."""
    path = Path(tempfile.mkdtemp(prefix="leasehold-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Postgres]:
    server = Postgres(folder / "deeper" / "postgres", free_port(), "p@ss w/rd")
    yield server
    server.kill()
    server.stop()


@pytest.fixture
def postgres(server: Postgres) -> Postgres:
    """It runs, with the data that earlier tests left."""
    if server.process is None:
        server.start()
    return server


def test_postgres_is_durable_and_asks_for_a_password(postgres: Postgres) -> None:
    for name in ("fsync", "full_page_writes", "synchronous_commit", "data_checksums"):
        assert ask(postgres, f"show {name}") == "on"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url_for("postgres", "guess"))


def test_a_killed_postgres_recovers_what_it_acknowledged(postgres: Postgres) -> None:
    ask(postgres, "create table kept as select 7 as value")
    postgres.kill()
    assert not postgres.accepts()
    postgres.start()
    assert ask(postgres, "select value from kept") == 7


def test_a_process_number_that_belongs_to_somebody_else_by_now_is_no_obstacle(
    postgres: Postgres,
) -> None:
    postgres.kill()
    pid_file = postgres.home / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getppid()), *lines[1:]]) + "\n")
    postgres.start()
    assert postgres.accepts()


def test_data_in_use_by_another_launcher_is_left_alone(postgres: Postgres) -> None:
    with pytest.raises(StartFailed, match="already run by another launcher"):
        Postgres(postgres.home, free_port(), "p@ss w/rd").start()
    assert postgres.accepts()


def test_a_server_left_behind_by_a_killed_launcher_is_replaced(postgres: Postgres) -> None:
    left_behind = postgres.process
    assert left_behind is not None
    assert postgres._lock is not None
    os.close(postgres._lock)
    postgres._lock = postgres.process = None
    postgres.start()
    assert left_behind.wait(5) == 0
    assert postgres.accepts()


def test_a_wrong_password_for_existing_data_is_explained(postgres: Postgres) -> None:
    postgres.stop()
    with pytest.raises(StartFailed, match="was made with another password"):
        Postgres(postgres.home, postgres.port, "another").start()


@pytest.mark.parametrize("kind", [Nats, Postgres])
def test_a_busy_port_is_named(folder: Path, kind: type[Nats] | type[Postgres]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        server = (
            Nats(folder / "busy", port) if kind is Nats else Postgres(folder / "busy", port, "x")
        )
        with pytest.raises(StartFailed, match=f"port {port} is in use by another program"):
            server.start()


def test_nats_keeps_its_store_until_it_is_wiped(folder: Path) -> None:
    server = Nats(folder / "nats", free_port(), sync_interval="always")
    server.start()
    marker = server.home / "jetstream" / "marker"
    marker.touch()
    server.kill()
    server.start()
    assert marker.exists()
    with pytest.raises(RuntimeError):
        server.wipe()
    server.stop()
    server.wipe()
    server.start()
    assert not marker.exists()
    server.stop()


def test_a_configuration_that_nats_does_not_understand_is_quoted(folder: Path) -> None:
    server = Nats(folder / "other", free_port(), extras="authorization: { users: [ }")
    with pytest.raises(StartFailed, match="NATS did not start: .*Parse error on line"):
        server.start()


def ask(postgres: Postgres, question: str) -> object:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        answer = connection.execute(question.encode())
        row = answer.fetchone() if answer.description else None
        return row[0] if row else None
