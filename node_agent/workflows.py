"""The loops that speak with the control plane. Each goes on by itself while others are cut off.

A loop is a step that is repeated: when it fails for a reason outside this process, it is tried
again later and later, with jitter, and nothing is lost, because a step takes its facts from the
jobs and the journal and gives them up only for an answer.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from chassis.channels import DEADLINE_SECONDS, Channels
from chassis.clock import now
from chassis.errors import NotFound
from chassis.identity import Identity
from chassis.rpc import error_from_rpc
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import billing_service_pb2_grpc as billing_grpc
from leasehold.enforcement.v1 import enforcement_service_pb2 as enforcement_pb
from leasehold.enforcement.v1 import enforcement_service_pb2_grpc as enforcement_grpc
from leasehold.placement.v1 import node_service_pb2 as node_pb
from leasehold.placement.v1 import node_service_pb2_grpc as node_grpc
from node_agent import measures, wire
from node_agent.agent import Agent
from node_agent.credentials import Credentials
from node_agent.gpus import GpuReader
from node_agent.uptime import boot_id, uptime_us

WAIT_MS = 1000
TELEMETRY_SECONDS = 2.0
# About twenty minutes of eight GPUs.
SAMPLES_MAX = 5000
SLICES_MAX = 500
_LOOK_SECONDS = 0.2
_PAUSE_SECONDS = 0.2
_PAUSE_SECONDS_MAX = 5.0
_FORGETTABLE = {billing_pb.SLICE_OUTCOME_RECORDED, billing_pb.SLICE_OUTCOME_DISPUTED}

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Workflows:
    def __init__(
        self,
        agent: Agent,
        reader: GpuReader,
        credentials: Credentials,
        identity: Identity,
        channels: Channels,
    ) -> None:
        self._agent = agent
        self._reader = reader
        self._credentials = credentials
        self._identity = identity
        self._placement = channels.get("placement")
        self._node = node_grpc.NodeServiceStub(self._placement)
        self._billing = billing_grpc.BillingServiceStub(channels.get("billing"))
        self._enforcement = enforcement_grpc.EnforcementServiceStub(channels.get("enforcement"))
        self._boot_id = boot_id()
        self._revision = 0
        # The control plane's clock less ours since boot; None before its first answer.
        self._clock_us: int | None = None
        # What the control plane was last told runs, without the times; None: nothing yet.
        self._told: set[tuple[str, int]] | None = None
        self._samples: deque[enforcement_pb.GpuSample] = deque(maxlen=SAMPLES_MAX)
        self.in_sync = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as loops:
            loops.create_task(repeat("sync", self._sync, _LOOK_SECONDS, self._noticed))
            loops.create_task(repeat("slices", self._send_slices, 1.0))
            loops.create_task(repeat("logs", self._send_logs, 0.5))
            loops.create_task(repeat("readings", self._read_gpus, TELEMETRY_SECONDS))
            loops.create_task(repeat("telemetry", self._send_telemetry, TELEMETRY_SECONDS))
            loops.create_task(repeat("certificate", self._renew, TELEMETRY_SECONDS))

    def _noticed(self, succeeded: bool) -> None:
        self.in_sync = succeeded

    async def _sync(self) -> None:
        """Says what runs and hears what should; a change on the node cuts the waiting short."""
        statuses = self._statuses()
        states = _states(statuses)
        request = node_pb.SyncNodeRequest(
            boot_id=self._boot_id,
            wall_at=now(),
            statuses=statuses,
            revision=self._revision,
            wait_ms=WAIT_MS if states == self._told else 0,
        )
        asked_at = uptime_us()
        call = self._node.SyncNode(request, timeout=DEADLINE_SECONDS + WAIT_MS / 1000)
        answer = await _unless(self._changed(states), call)
        if answer is None:
            return
        self._told = states
        orders = [wire.assignment(message, asked_at) for message in answer.assignments]
        self._agent.obey(orders, answer.settled)
        self._revision = answer.revision
        self._clock_us = answer.at - uptime_us()

    async def _changed(self, states: set[tuple[str, int]]) -> None:
        """Returns when something else runs than ``states`` say, if that was already told."""
        while states != self._told or _states(self._statuses()) == states:
            await asyncio.sleep(_LOOK_SECONDS)

    def _statuses(self) -> list[node_pb.RunStatus]:
        measures.show_runs(self._agent.jobs.runs())
        refused = [wire.refusal(each) for each in self._agent.refused.values()]
        return [wire.status(run) for run in self._agent.open_runs()] + refused

    async def _send_slices(self) -> None:
        pending = self._agent.pending_slices()
        measures.slices_pending.set(len(pending))
        for first in range(0, len(pending), SLICES_MAX):
            batch = pending[first : first + SLICES_MAX]
            request = billing_pb.RecordSlicesRequest(
                slices=[wire.slice_(run, each) for run, each in batch]
            )
            answer = await self._billing.RecordSlices(request)
            outcomes = zip(batch, answer.outcomes, strict=False)
            self._agent.slices_answered([each for each, out in outcomes if out in _FORGETTABLE])

    async def _send_logs(self) -> None:
        for lease_id, offset, data in self._agent.output():
            chunk = node_pb.LogChunk(lease_id=lease_id, offset=offset, data=data)
            try:
                await self._node.AppendLogs(node_pb.AppendLogsRequest(chunks=[chunk]))
            except grpc.aio.AioRpcError as failure:
                wanted = _offset_wanted(failure, offset + len(data))
            else:
                wanted = offset + len(data)
            self._agent.continue_output(lease_id, wanted)

    async def _read_gpus(self) -> None:
        # In a thread, because a driver with a broken GPU can take seconds to say so.
        readings = await asyncio.to_thread(self._reader.readings)
        measures.show_readings(readings)
        # Time since boot as the number: it goes on rising when the agent is restarted.
        seq = uptime_us()
        self._samples.extend(wire.sample(reading, seq) for reading in readings)

    async def _send_telemetry(self) -> None:
        batch = list(self._samples)
        if batch:
            request = enforcement_pb.ReportTelemetryRequest(boot_id=self._boot_id, samples=batch)
            await self._enforcement.ReportTelemetry(request)
            while self._samples and self._samples[0].seq <= batch[-1].seq:
                self._samples.popleft()

    async def _renew(self) -> None:
        # By the control plane's clock: the node's may be wrong, and then it would renew always
        # or never.
        if self._clock_us is None:
            return
        if uptime_us() + self._clock_us >= self._identity.credentials().renew_at:
            await self._credentials.renew(self._identity, self._placement)
            _log.info("the certificate was renewed")


async def repeat(
    name: str,
    step: Callable[[], Awaitable[None]],
    seconds: float,
    noticed: Callable[[bool], None] = lambda succeeded: None,
) -> None:
    """Runs ``step`` for ever; failures are logged when they begin and when they end."""
    failures = 0
    while True:
        try:
            await step()
        except (grpc.aio.AioRpcError, OSError) as error:
            if failures == 0:
                _log.warning("%s: cut off: %s", name, _reason(error))
            failures += 1
            measures.failures.labels(name).inc()
        else:
            if failures:
                _log.info("%s: back after %d attempts", name, failures)
            failures = 0
        noticed(failures == 0)
        await asyncio.sleep(pause_seconds(failures) if failures else seconds)


def pause_seconds(failures: int) -> float:
    """Twice as long after each failure up to a bound, and never two nodes in step."""
    longest = min(_PAUSE_SECONDS * 2 ** min(failures, 10), _PAUSE_SECONDS_MAX)
    return float(longest * random.uniform(0.5, 1.0))


async def _unless(interruption: Awaitable[None], answer: Awaitable[T]) -> T | None:
    """The answer, or None if the interruption came first; whichever is late is cancelled."""
    answering, interrupting = map(asyncio.ensure_future, (_whole(answer), _whole(interruption)))
    both: set[asyncio.Future[Any]] = {answering, interrupting}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        interrupting.result()
        return None
    finally:
        for each in both:
            each.cancel()


async def _whole(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _offset_wanted(failure: grpc.aio.AioRpcError, end: int) -> int:
    """Where to go on with the output of a lease after a refusal; other failures are raised."""
    error = error_from_rpc(failure)
    if isinstance(error, NotFound):
        return end  # the lease is not known there, or not as ours: nobody wants its output
    if error.code == "LOG_GAP":
        return int(error.details["expected"])
    raise failure


def _states(statuses: list[node_pb.RunStatus]) -> set[tuple[str, int]]:
    return {(status.lease_id, status.state) for status in statuses}


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)
