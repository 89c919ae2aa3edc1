"""A service as a process: settings in, leadership, replay, then everything that listens or loops.

Until it leads its shard a process is a standby: it follows the log, so that taking over costs
no more than the last few events, and answers nothing but its metrics listener.

``python -m <service> rebuild <position>`` instead folds the log from zero up to a position and
writes the canonical state to standard output; comparing it with the live state checks replay.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import psycopg
from psycopg_pool import PoolTimeout

from chassis import logs, metrics, tracing
from chassis.application import Application, ChainBroken
from chassis.bus import Bus
from chassis.channels import Channels
from chassis.consumer import Consumer, Reaction
from chassis.edge import Edge
from chassis.identity import Identity
from chassis.leader import Leader
from chassis.log_service import LogService
from chassis.relay import Relay
from chassis.rpc import GrpcServer, Servicer, serve_grpc
from chassis.settings import Secret, ServiceSettings, Settings, load_or_exit
from chassis.snapshots import Snapshots
from chassis.store import Head, Store, Unsafe
from chassis.writer import Writer
from leasehold.authorisation import TABLE
from leasehold.chassis.v1.log_service_pb2_grpc import add_LogServiceServicer_to_server

log = logging.getLogger(__name__)

EXIT_SETTINGS = 2
STANDBY_SECONDS = 0.25
RESTART_SECONDS = 0.5
STOP_SECONDS = 2.0

A = TypeVar("A", bound=Application)
S = TypeVar("S", bound=ServiceSettings)


@dataclass(frozen=True, slots=True)
class Part:
    """What a service brings: its API, what it reacts to, and what it does by itself."""

    servicers: Sequence[Servicer]
    sources: frozenset[str] = frozenset()
    reactions: Mapping[str, Reaction] = field(default_factory=dict)
    workflows: Sequence[Callable[[], Awaitable[None]]] = ()


Assemble = Callable[[A, S, Edge], Part]


def run(application: type[A], settings: type[S], assemble: Assemble[A, S]) -> None:
    """The main function of every service."""
    if sys.argv[1:2] == ["rebuild"]:
        sys.stdout.buffer.write(rebuilt(application, load_or_exit(LogSettings), int(sys.argv[2])))
        return
    loaded = load_or_exit(settings)
    logs.configure(application.service)
    if not tracing.configure(application.service, loaded.otlp_endpoint):
        log.warning("traces stay here: the OTLP exporter is not installed")
    raise SystemExit(asyncio.run(Process(application, loaded, assemble).main()))


@dataclass(frozen=True, kw_only=True)
class LogSettings(Settings):
    """What it takes to read a log."""

    postgres_url: Secret
    shard: int = 0


def rebuilt(application: type[A], settings: LogSettings, until: int) -> bytes:
    store = Store(settings.postgres_url.reveal(), application.service, settings.shard)
    fresh = application(store)
    fresh.cache_size = sys.maxsize  # type: ignore[misc]
    if until:
        fresh.catch_up(until=until)
    store.close()
    return fresh.state()


class Process(Generic[A, S]):
    def __init__(self, application: type[A], settings: S, assemble: Assemble[A, S]) -> None:
        self._kind = application
        self._settings = settings
        self._assemble = assemble
        self._why_not_ready = "starting"
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._exit_code = 0

    async def main(self) -> int:
        settings, service = self._settings, self._kind.service
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        listener = metrics.MetricsListener(
            settings.host, settings.metrics_port, lambda: self._why_not_ready
        )
        listener.start()
        store = Store(settings.postgres_url.reveal(), service, settings.shard)
        try:
            await self._until_stopped(store)
        except (Unsafe, ChainBroken) as refused:
            log.critical("refusing to run: %s", refused)
            self._exit_code = EXIT_SETTINGS
        finally:
            await asyncio.to_thread(store.close)
            listener.stop()
        return self._exit_code

    async def _until_stopped(self, store: Store) -> None:
        identity = Identity(self._settings.identity_dir)
        application = self._kind(store)
        holder = f"{self._kind.service}@{self._settings.host}:{self._settings.grpc_port}"
        leader = Leader(store, holder, self._settings.leader_ttl_ms)
        head = await self._lead(store, application, leader)
        if head is None:
            return
        loop = asyncio.get_running_loop()

        def lost() -> None:
            self._exit_code = 1
            loop.call_soon_threadsafe(self._stop.set)

        def committed(commands: int, events: int) -> None:
            if events:
                loop.call_soon_threadsafe(relay.nudge)

        leader.keep(lost)
        relay = Relay(store, self._kind.service, identity)
        writer = Writer(
            application,
            store,
            head,
            on_commit=committed,
            on_lost=lost,
        )
        writer.start()
        try:
            await self._serve(store, application, writer, relay, identity)
        finally:
            await asyncio.to_thread(writer.stop)
            if self._exit_code == 0:
                await asyncio.to_thread(self._snapshot, store, application)
                await asyncio.to_thread(leader.resign)

    async def _lead(self, store: Store, application: A, leader: Leader) -> Head | None:
        """Follow the log until this process leads; None if it is told to stop first."""
        checked = False
        while not self._stop.is_set():
            try:
                if not checked:
                    await asyncio.to_thread(store.refuse_unsafe_settings)
                    await asyncio.to_thread(application.start_from_snapshot)
                    checked = True
                await asyncio.to_thread(application.catch_up)
                if head := await asyncio.to_thread(leader.acquire):
                    await asyncio.to_thread(application.catch_up)
                    return head
                self._why_not_ready = "standby"
            except (psycopg.OperationalError, PoolTimeout):
                self._why_not_ready = "waiting for the database"
            await self._pause(STANDBY_SECONDS)
        return None

    async def _serve(
        self, store: Store, application: A, writer: Writer, relay: Relay, identity: Identity
    ) -> None:
        settings, service = self._settings, self._kind.service
        channels = Channels(identity, settings.peers)
        edge = Edge(service, writer, channels)
        part = self._assemble(application, settings, edge)
        bus = Bus(settings.nats_url.reveal(), service)
        consumers = [
            Consumer(service, source, bus, store, edge, part.reactions, identity)
            for source in sorted(part.sources)
        ]
        log_service = LogService(application, store, edge, consumers)
        server = await serve_grpc(
            settings.host,
            settings.grpc_port,
            identity,
            [*part.servicers, (add_LogServiceServicer_to_server, log_service)],
            TABLE,
            environment=settings.environment,
        )
        loops = [lambda: relay.run(bus), *(c.run for c in consumers), *part.workflows]
        loops.append(Snapshots(application, store, edge).run)
        self._tasks = [asyncio.create_task(self._keep_running(loop)) for loop in loops]
        self._why_not_ready = ""
        log.info("leading", extra={"position": application.head.position})
        await self._stop.wait()
        await self._wind_down(server, bus, channels)

    async def _keep_running(self, loop: Callable[[], Awaitable[None]]) -> None:
        """A loop that fails is a bug or an outage; either way it is logged and begun again."""
        while not self._stop.is_set():
            try:
                await loop()
            except Unsafe as refused:
                log.critical("refusing to run: %s", refused)
                self._exit_code = EXIT_SETTINGS
                self._stop.set()
            except Exception:
                log.exception("a loop failed; starting it again")
            await self._pause(RESTART_SECONDS)

    async def _wind_down(self, server: GrpcServer, bus: Bus, channels: Channels) -> None:
        self._why_not_ready = "stopping"
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        await server.stop(STOP_SECONDS)
        await channels.close()
        await bus.close()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    def _snapshot(self, store: Store, application: Application) -> None:
        store.save_snapshot(application.head.position, application.code(), application.snapshot())
