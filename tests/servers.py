"""Real servers for tests, on free ports, with their data in a temporary folder."""

import random
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leasehold.launcher.embedded import Nats, Postgres

PASSWORD = "only for tests"
# Below the range from which the system takes ports for outgoing connections, so that a server
# that is killed and started again finds its port free.
_PORTS = range(20_000, 32_000)


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    with _folder() as folder:
        server = Postgres(folder / "postgres", free_port(), PASSWORD)
        server.start()
        try:
            yield server
        finally:
            # Its data is thrown away, so the checkpoint of a clean stop would be wasted.
            server.kill()
            server.stop()


@contextmanager
def nats_server(extras: str = "") -> Iterator[Nats]:
    with _folder() as folder:
        server = Nats(folder / "nats", free_port(), extras=extras)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="leasehold-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
