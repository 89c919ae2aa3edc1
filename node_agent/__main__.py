"""``python -m node_agent``: settings, join, loops, and a clean stop on SIGTERM.

Stopping the agent leaves the jobs running: they are the tenants', and the next agent on the same
folder finds them again. One folder has one agent, which its lock ensures.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from chassis import logs, tracing
from chassis.channels import Channels
from chassis.clock import SECOND
from chassis.errors import Refused, ServiceError, Unavailable
from chassis.identity import UnusableIdentity
from chassis.metrics import MetricsListener
from chassis.rpc import error_from_rpc
from chassis.settings import PORT, Secret, Settings, limits, load_or_exit
from leasehold.placement.v1 import node_service_pb2
from node_agent import measures, wire
from node_agent.agent import Agent
from node_agent.credentials import Credentials
from node_agent.gpus import Gpu, GpuReader
from node_agent.nvml import NvmlReader
from node_agent.policy import JobState
from node_agent.simulated import SimulatedReader
from node_agent.uptime import boot_id
from node_agent.workflows import Workflows, pause_seconds

PEERS = ("placement", "billing", "enforcement")
_STOP_GRACE_US = 2 * SECOND
_STOP_SECONDS_MAX = 3

_log = logging.getLogger("node_agent")


@dataclass(frozen=True, kw_only=True)
class NodeAgentSettings(Settings):
    state_dir: Path
    peers: dict[str, str]
    metrics_port: int = field(metadata=PORT)
    host: str = "127.0.0.1"
    node_name: str = ""
    # Needed until the node has joined.
    join_token: Secret = Secret("")
    placement_join: str = ""
    trust_bundle: Path = Path()
    slice_seconds: int = field(default=5, metadata=limits(low=1, high=300))
    # Path of the NVML library; empty finds the driver's, "python" reads simulated GPUs.
    nvml: str = ""
    # Stop the jobs together with the agent instead of leaving them to the next one.
    stop_jobs: bool = False

    @property
    def identity_dir(self) -> Path:
        return self.state_dir / "identity"

    def problems(self) -> list[str]:
        found = super().problems()
        found += [f"LEASEHOLD_PEERS names no {peer}" for peer in PEERS if peer not in self.peers]
        if not Credentials(self.identity_dir).joined:
            if not self.join_token.reveal():
                found.append("LEASEHOLD_JOIN_TOKEN is not set, and this node has not joined yet")
            if not self.placement_join:
                found.append("LEASEHOLD_PLACEMENT_JOIN is not set, and this node must join")
            if not self.trust_bundle.is_file():
                found.append(f"LEASEHOLD_TRUST_BUNDLE: {self.trust_bundle} is not a file")
        return found


class Process:
    """One agent from start to stop."""

    def __init__(self, settings: NodeAgentSettings) -> None:
        self._settings = settings
        self._credentials = Credentials(settings.identity_dir)
        self._workflows: Workflows | None = None

    async def run(self) -> None:
        work = asyncio.create_task(self._serve())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        listener = MetricsListener(self._settings.host, self._settings.metrics_port, self._unready)
        listener.start()
        try:
            await work
        except asyncio.CancelledError:
            _log.info("the agent has stopped")
        finally:
            listener.stop()

    async def _serve(self) -> None:
        settings = self._settings
        reader = open_reader(settings)
        gpus = reader.gpus()
        measures.simulated.set(reader.simulated)
        if reader.simulated:
            _log.warning("the GPUs of this node are simulated")
        if not self._credentials.joined:
            await self._join(reader, gpus)
        shown = self._credentials.open()
        _log.info("the node is up", extra={"identity": shown.uri, "gpus": len(gpus)})
        agent = Agent(settings.state_dir, gpus, slice_seconds=settings.slice_seconds)
        channels = Channels(shown, {name: settings.peers[name] for name in PEERS})
        self._workflows = Workflows(agent, reader, self._credentials, shown, channels)
        try:
            await self._workflows.run()
        finally:
            await channels.close()
            if settings.stop_jobs:
                await _stop_jobs(agent)
            agent.journal.close()
            reader.close()

    async def _join(self, reader: GpuReader, gpus: list[Gpu]) -> None:
        settings = self._settings
        evidence = node_service_pb2.JoinNodeRequest(
            token=settings.join_token.reveal(),
            hostname=settings.node_name or socket.gethostname(),
            boot_id=boot_id(),
            driver_version=reader.driver_version,
            simulated=reader.simulated,
            gpus=[wire.gpu(gpu) for gpu in gpus],
        )
        trust = settings.trust_bundle.read_bytes()
        failures = 0
        while True:
            try:
                await self._credentials.join(settings.placement_join, trust, evidence)
                return
            except grpc.aio.AioRpcError as failure:
                error = error_from_rpc(failure)
                if not isinstance(error, Unavailable):
                    raise error from None
                failures += 1
                _log.warning("cannot join yet: %s", error.message)
                await asyncio.sleep(pause_seconds(failures))

    def _unready(self) -> str:
        if self._workflows is None:
            return "not joined"
        return "" if self._workflows.in_sync else "cut off from placement"


def open_reader(settings: NodeAgentSettings) -> GpuReader:
    reader: GpuReader
    if settings.nvml == "python":
        reader = SimulatedReader.from_environment()
    else:
        reader = NvmlReader(Path(settings.nvml) if settings.nvml else None)
    if reader.simulated and settings.environment == "production":
        raise Refused("simulated GPUs are refused in production", code="SIMULATED")
    return reader


async def _stop_jobs(agent: Agent) -> None:
    agent.stop_all("NODE_STOPPED", _STOP_GRACE_US)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS_MAX):
            while any(run.state is JobState.RUNNING for run in agent.jobs.runs()):
                await asyncio.sleep(0.05)


def _lock(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(f"another agent works in {folder}", code="LOCKED") from None
    return descriptor


def main() -> None:
    settings = load_or_exit(NodeAgentSettings)
    logs.configure("node_agent")
    tracing.configure("node_agent", settings.otlp_endpoint)
    try:
        _lock(settings.state_dir)
        asyncio.run(Process(settings).run())
    except (ServiceError, UnusableIdentity, OSError) as error:
        _log.error("the agent cannot go on: %s", error)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
