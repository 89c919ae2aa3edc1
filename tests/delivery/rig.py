"""The core of a service running in this process, and its log served to others over mTLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar

import psycopg

from chassis.application import Application
from chassis.bus import Bus
from chassis.channels import Channels
from chassis.edge import Edge
from chassis.identity import Identity
from chassis.leader import Leader
from chassis.log_service import LogService
from chassis.relay import Relay
from chassis.rpc import serve_grpc
from chassis.schema import ddl
from chassis.store import Store
from chassis.writer import Writer
from leasehold.chassis.v1.log_service_pb2_grpc import add_LogServiceServicer_to_server
from tests.chassis.shelf import Depot

A = TypeVar("A", bound=Application)

LOG = "/leasehold.chassis.v1.LogService"
TABLE = {f"{LOG}/{method}": {"ledger": True} for method in ("GetHead", "Replay")}


class Core(Generic[A]):
    """Store, application and writer of one service."""

    def __init__(self, kind: type[A], url: str, lost: Callable[[], None] = lambda: None) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(ddl(kind.service, "current_user").encode())
        self.store = Store(url, kind.service)
        self.app = kind(self.store)
        head = Leader(self.store, "the only one", 60_000).acquire()
        assert head is not None
        self.app.catch_up()
        self.writer = Writer(self.app, self.store, head, on_lost=lost)
        self.writer.start()

    def close(self) -> None:
        self.writer.stop()
        self.store.close()


@contextmanager
def core(kind: type[A], url: str) -> Iterator[Core[A]]:
    running = Core(kind, url)
    try:
        yield running
    finally:
        running.close()


def mount(depot: Core[Depot], *shelves: str) -> None:
    for shelf in shelves:
        depot.writer.command(
            lambda at, shelf=shelf: depot.app.mount(shelf, "ten_1", 10**9, at=at)
        ).result(10)


def stock(depot: Core[Depot], shelf: str, *goods: int) -> None:
    """One event for each; they may share a commit."""
    futures = [
        depot.writer.command(lambda at, count=count: depot.app.stock(shelf, count, at=at))
        for count in goods
    ]
    for future in futures:
        future.result(10)


@asynccontextmanager
async def relaying(running: Core[A], bus_url: str, identity: Identity) -> AsyncIterator[Relay]:
    bus = Bus(bus_url, running.app.service)
    relay = Relay(running.store, running.app.service, identity)
    task = asyncio.create_task(relay.run(bus))
    try:
        yield relay
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await bus.close()


@asynccontextmanager
async def log_served(running: Core[A], identity: Identity, port: int = 0) -> AsyncIterator[int]:
    """The log on a port, as every service offers it."""
    edge = Edge(running.app.service, running.writer, Channels(identity, {}))
    log = LogService(running.app, running.store, edge, [])
    servicers = [(add_LogServiceServicer_to_server, log)]
    server = await serve_grpc("127.0.0.1", port, identity, servicers, TABLE)
    try:
        yield server.port
    finally:
        await server.stop(0)
