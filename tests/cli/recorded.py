"""A log to check: the gateway's, written by its real writer and published by its real relay."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psycopg

from chassis import canonical, identity, ids, schema
from chassis.applier import Applier
from chassis.bus import Bus, events_stream
from chassis.canonical import GENESIS, chained
from chassis.channels import Channels
from chassis.consumer import Consumer
from chassis.edge import Edge
from chassis.envelope import Origin
from chassis.incoming import Reaction
from chassis.leader import Leader
from chassis.log_service import LogService
from chassis.relay import Relay
from chassis.rpc import GrpcServer, serve_grpc
from chassis.store import Store
from chassis.writer import Writer
from gateway.application import Gateway
from leasehold.authorisation import TABLE
from leasehold.chassis.v1.log_service_pb2_grpc import add_LogServiceServicer_to_server

SERVICE = "gateway"


class Log:
    def __init__(self, database_url: str) -> None:
        self.url = database_url
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(schema.ddl(SERVICE, connection.info.user).encode())
        self.store = Store(database_url, SERVICE)
        self.gateway = Gateway(self.store)
        head = Leader(self.store, "test", 60_000).acquire()
        assert head is not None
        self.writer = Writer(self.gateway, self.store, head)
        self.writer.start()

    def close(self) -> None:
        self.writer.stop()
        self.store.close()

    @property
    def events(self) -> int:
        return self.store.head().position

    def sign_up(self, tenants: int = 1, project: str = "default") -> None:
        """Each is two events."""
        for _ in range(tenants):
            self.writer.command(
                lambda at: self.gateway.sign_up(
                    ids.new("ten"), "acme", project, client_id=ids.new("cli"),
                    secret_sha256="0" * 64, at=at,
                )
            ).result(10)  # fmt: skip

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url, options=f"-c search_path={SERVICE}") as connection:
            connection.execute(statement.encode())

    def rewrite_chain(self) -> None:
        """Make every hash and the head right again, as somebody who knows the format would."""
        with psycopg.connect(self.url, options=f"-c search_path={SERVICE}") as connection:
            position, hash_ = 0, GENESIS
            rows = connection.execute("select position, data from events order by position")
            for position, data in rows.fetchall():
                hash_ = chained(hash_, data)
                connection.execute(
                    "update events set hash = %s where position = %s", (hash_, position)
                )
            connection.execute("update heads set position = %s, hash = %s", (position, hash_))

    def note_sighting(self, witness: str) -> None:
        """What a service would have written down that has applied everything so far."""
        head = self.store.head()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(schema.ddl(witness, connection.info.user).encode())
            connection.execute(
                f"insert into {witness}.cursors values (0, %s, %s, 'here', %s)".encode(),
                (SERVICE, head.position, head.hash),
            )

    def park(self, source: str, position: int, aggregate_id: str) -> None:
        """As if an event of another service could not have been applied."""
        meta = {"tenant_id": "", "correlation_id": ""}
        row = (source, position, aggregate_id, canonical.dumps({"meta": meta}))
        with psycopg.connect(self.url) as connection:
            connection.execute(
                f"insert into {SERVICE}.parked values (0, %s, %s, %s, 'billing.account.opened',"
                " 'no price is published', %s)".encode(),
                row,
            )

    def origin(self) -> Origin:
        return Origin(SERVICE, 0, self.store.incarnation())


async def publish(log: Log, nats_url: str, until: int = 0) -> None:
    """Let the relay publish everything."""
    with tempfile.TemporaryDirectory(prefix="leasehold-") as folder:
        sealer = _identity(Path(folder))
        await _publish(
            Bus(nats_url, SERVICE), Relay(log.store, SERVICE, sealer), until or log.events
        )


async def _publish(bus: Bus, relay: Relay, until: int) -> None:
    running = asyncio.create_task(relay.run(bus))
    try:
        async with asyncio.timeout(10):
            while await _published(bus) < until:
                relay.nudge()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bus.close()


async def _published(bus: Bus) -> int:
    info = await bus.ensure(events_stream(SERVICE))
    return info.state.last_seq


class Follower:
    """Of a consumer what an operator asks for: its parked events, applied again."""

    def __init__(self, log: Log, source: str, reactions: Mapping[str, Reaction]) -> None:
        self.source = source
        self._applier = Applier(SERVICE, source, log.store, log.writer, reactions)

    async def redrive(self) -> int:
        return await self._applier.redrive()


@contextmanager
def live(log: Log, folder: Path, nats_url: str, *followers: Follower) -> Iterator[None]:
    """Serve the log over gRPC as the gateway does, with a state folder that says where."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_serve(log, folder, followers), loop).result(10)
    addresses = {
        "postgres_url": log.url,
        "nats_url": nats_url,
        "peers": {SERVICE: f"127.0.0.1:{server.port}"},
    }
    (folder / "platform.json").write_text(json.dumps(addresses))
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(0), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve(log: Log, folder: Path, followers: Sequence[Follower]) -> GrpcServer:
    mine = _identity(folder / "identity")
    edge = Edge(SERVICE, log.writer, Channels(mine, {}))
    consumers = cast(Sequence[Consumer], followers)
    servicer = LogService(log.gateway, log.store, edge, consumers)
    return await serve_grpc(
        "127.0.0.1", 0, mine, [(add_LogServiceServicer_to_server, servicer)], TABLE
    )


def _identity(identities: Path) -> identity.Identity:
    """The service's, beside the operator's, under a root of their own."""
    identity.create_root(identities / "root")
    names = {SERVICE: f"svc/{SERVICE}", "operator": "operator/local"}
    for name, path in names.items():
        identity.issue(
            identities / "root", identities / name, f"spiffe://leasehold/{path}", (name,)
        )
    return identity.Identity(identities / SERVICE)
