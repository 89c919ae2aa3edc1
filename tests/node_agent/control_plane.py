"""A control plane for one node: real gRPC over mutual TLS on loopback, with a memory and no rules.

It runs in a thread of its own, so that tests read top to bottom. It can be cut off and come back
on the same ports, and it can take in a request and lose the answer.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from chassis import identity
from chassis.clock import now
from chassis.errors import Denied, Refused, Unavailable
from chassis.identity import Identity
from chassis.rpc import GrpcServer, serve_grpc
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import billing_service_pb2_grpc as billing_grpc
from leasehold.enforcement.v1 import enforcement_service_pb2 as enforcement_pb
from leasehold.enforcement.v1 import enforcement_service_pb2_grpc as enforcement_grpc
from leasehold.placement.v1 import node_service_pb2 as node_pb
from leasehold.placement.v1 import node_service_pb2_grpc as node_grpc

TOKEN = "only-once"
NODE = "spiffe://nodes.leasehold/node/nod_1"
SERVICES = ("placement", "billing", "enforcement")
TABLE = {
    "/leasehold.placement.v1.JoinService/JoinNode": {"anyone": True},
    "/leasehold.placement.v1.NodeService/RenewCertificate": {"node": True},
    "/leasehold.placement.v1.NodeService/SyncNode": {"node": True},
    "/leasehold.placement.v1.NodeService/AppendLogs": {"node": True},
    "/leasehold.billing.v1.BillingService/RecordSlices": {"node": True},
    "/leasehold.enforcement.v1.EnforcementService/ReportTelemetry": {"node": True},
}


@dataclass
class Memory:
    """Everything that was said, and what is to be answered."""

    joins: list[node_pb.JoinNodeRequest] = field(default_factory=list)
    renewals: int = 0
    syncs: list[node_pb.SyncNodeRequest] = field(default_factory=list)
    statuses: dict[str, node_pb.RunStatus] = field(default_factory=dict)
    assignments: dict[str, node_pb.Assignment] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    slices: dict[tuple[str, int], billing_pb.Slice] = field(default_factory=dict)
    contradictions: list[billing_pb.Slice] = field(default_factory=list)
    samples: list[enforcement_pb.GpuSample] = field(default_factory=list)
    logs: dict[str, bytearray] = field(default_factory=dict)
    revision: int = 1
    certificate_seconds: int = 3600
    # Take requests in, and lose the answers.
    losing: bool = False
    # Not known yet: send it again.
    retrying: bool = False

    def exited(self, lease_id: str) -> node_pb.RunStatus | None:
        status = self.statuses.get(lease_id)
        return status if status and status.state != node_pb.RUN_STATE_RUNNING else None

    def intervals(self, lease_id: str) -> list[tuple[int, int]]:
        """The recorded slices of a lease in the order of their numbers, which have no gap."""
        found = sorted((seq, s) for (lease, seq), s in self.slices.items() if lease == lease_id)
        assert [seq for seq, _ in found] == list(range(1, len(found) + 1))
        return [(each.from_us, each.until_us) for _, each in found]


class ControlPlane:
    def __init__(self, folder: Path) -> None:
        self.memory = Memory()
        self.trust = folder / "root" / "cert.pem"
        self._folder = folder
        identity.create_root(folder / "root")
        identity.create_node_ca(folder / "root", folder / "node_ca")
        for name in SERVICES:
            identity.issue(folder / "root", folder / name, f"spiffe://leasehold/svc/{name}", [name])
        self.ports = dict(zip((*SERVICES, "join"), _free_ports(4), strict=True))
        self._servers: list[GrpcServer] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self) -> None:
        self._run(self._start())

    def cut(self) -> None:
        """Nobody answers any more."""
        self._run(self._stop())

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def peers(self) -> str:
        return ",".join(f"{name}=127.0.0.1:{self.ports[name]}" for name in SERVICES)

    def assign(self, assignment: node_pb.Assignment) -> None:
        self.memory.assignments[assignment.lease_id] = assignment
        self.memory.revision += 1

    async def _start(self) -> None:
        memory, folder = self.memory, self._folder
        join, node = _Join(memory, folder), _Node(memory, folder)
        served: dict[str, tuple[Any, Any]] = {
            "placement": (node_grpc.add_NodeServiceServicer_to_server, node),
            "billing": (billing_grpc.add_BillingServiceServicer_to_server, _Billing(memory)),
            "enforcement": (
                enforcement_grpc.add_EnforcementServiceServicer_to_server,
                _Enforcement(memory),
            ),
            "join": (node_grpc.add_JoinServiceServicer_to_server, join),
        }
        for name, servicer in served.items():
            shown = Identity(folder / ("placement" if name == "join" else name))
            server = await serve_grpc(
                "127.0.0.1",
                self.ports[name],
                shown,
                [servicer],
                TABLE,
                require_client_certificate=name != "join",
            )
            self._servers.append(server)

    async def _stop(self) -> None:
        for server in self._servers:
            await server.server.stop(None)
        self._servers.clear()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)


class _Join(node_grpc.JoinServiceServicer):
    def __init__(self, memory: Memory, folder: Path) -> None:
        self._memory = memory
        self._folder = folder

    async def JoinNode(
        self, request: node_pb.JoinNodeRequest, context: grpc.aio.ServicerContext
    ) -> node_pb.JoinNodeResponse:
        known = [each for each in self._memory.joins if each.token == request.token]
        if request.token != TOKEN or known and request != known[0]:
            raise Denied("the token is not valid", code="TOKEN")
        self._memory.joins.append(request)
        if self._memory.losing:
            raise Unavailable("the answer is lost")
        chain = _signed(self._memory, self._folder, request.certificate_request)
        trust = (self._folder / "root" / "cert.pem").read_text()
        return node_pb.JoinNodeResponse(
            node_id="nod_1", certificate_chain=chain, trust_bundle=trust
        )


class _Node(node_grpc.NodeServiceServicer):
    def __init__(self, memory: Memory, folder: Path) -> None:
        self._memory = memory
        self._folder = folder

    async def RenewCertificate(
        self, request: node_pb.RenewCertificateRequest, context: grpc.aio.ServicerContext
    ) -> node_pb.RenewCertificateResponse:
        self._memory.renewals += 1
        chain = _signed(self._memory, self._folder, request.certificate_request)
        trust = (self._folder / "root" / "cert.pem").read_text()
        return node_pb.RenewCertificateResponse(certificate_chain=chain, trust_bundle=trust)

    async def SyncNode(
        self, request: node_pb.SyncNodeRequest, context: grpc.aio.ServicerContext
    ) -> node_pb.SyncNodeResponse:
        memory = self._memory
        memory.syncs.append(request)
        memory.statuses.update({status.lease_id: status for status in request.statuses})
        if memory.losing:
            raise Unavailable("the answer is lost")
        if request.revision == memory.revision:
            await _wait(request.wait_ms / 1000)
        return node_pb.SyncNodeResponse(
            revision=memory.revision,
            assignments=memory.assignments.values(),
            settled=[each for each in memory.settled if each in memory.statuses],
            at=now(),
        )

    async def AppendLogs(
        self, request: node_pb.AppendLogsRequest, context: grpc.aio.ServicerContext
    ) -> node_pb.AppendLogsResponse:
        for chunk in request.chunks:
            log = self._memory.logs.setdefault(chunk.lease_id, bytearray())
            if chunk.offset > len(log):
                raise Refused("a gap", code="LOG_GAP", expected=str(len(log)))
            log += chunk.data[len(log) - chunk.offset :]
        if self._memory.losing:
            raise Unavailable("the answer is lost")
        return node_pb.AppendLogsResponse()


class _Billing(billing_grpc.BillingServiceServicer):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def RecordSlices(
        self, request: billing_pb.RecordSlicesRequest, context: grpc.aio.ServicerContext
    ) -> billing_pb.RecordSlicesResponse:
        memory = self._memory
        if memory.retrying:
            retry = [billing_pb.SLICE_OUTCOME_RETRY] * len(request.slices)
            return billing_pb.RecordSlicesResponse(outcomes=retry)
        for each in request.slices:
            first = memory.slices.setdefault((each.lease_id, each.seq), each)
            if first != each:
                memory.contradictions.append(each)
        if memory.losing:
            raise Unavailable("the answer is lost")
        recorded = [billing_pb.SLICE_OUTCOME_RECORDED] * len(request.slices)
        return billing_pb.RecordSlicesResponse(outcomes=recorded)


class _Enforcement(enforcement_grpc.EnforcementServiceServicer):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def ReportTelemetry(
        self, request: enforcement_pb.ReportTelemetryRequest, context: grpc.aio.ServicerContext
    ) -> enforcement_pb.ReportTelemetryResponse:
        self._memory.samples += request.samples
        return enforcement_pb.ReportTelemetryResponse(accepted=len(request.samples))


def _signed(memory: Memory, folder: Path, request: str) -> str:
    seconds = memory.certificate_seconds
    return identity.sign_request(folder / "node_ca", request.encode(), NODE, seconds).decode()


async def _wait(seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports
