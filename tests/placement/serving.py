"""Placement behind its real ports: mutual TLS, a writer, PostgreSQL. Only the bus is missing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psycopg

from chassis import identity, schema
from chassis.channels import Channels
from chassis.edge import Edge
from chassis.incoming import Incoming, Reaction
from chassis.leader import Leader
from chassis.rpc import serve_grpc
from chassis.setting_values import Secret
from chassis.store import Store
from chassis.writer import Writer
from leasehold.authorisation import TABLE
from leasehold.placement.v1 import node_pb2, node_service_pb2_grpc, placement_service_pb2_grpc
from leasehold.placement.v1 import node_service_pb2 as node_pb
from leasehold.placement.v1 import placement_service_pb2 as pb
from placement import logs
from placement.__main__ import PlacementSettings, assemble
from placement.application import Placement
from tests import servers
from tests.chassis.mesh import Mesh, raw_channel
from tests.placement.fleet import TENANT, intent, workload

Scenario = Callable[["Service"], Awaitable[None]]
Play = Callable[..., None]


@dataclass
class Machine:
    """A machine that wants to be a node, and then is one."""

    name: str
    key: bytes
    certificate_request: str
    gpus: int = 8
    simulated: bool = True
    node_id: str = ""

    def join_request(self, token: str) -> node_pb.JoinNodeRequest:
        return node_pb.JoinNodeRequest(
            token=token,
            certificate_request=self.certificate_request,
            hostname=f"{self.name}.example",
            boot_id="boot-1",
            simulated=self.simulated,
            gpus=[
                node_pb2.Gpu(index=n, uuid=f"GPU-{self.name}-{n}", model="H100")
                for n in range(self.gpus)
            ],
        )


def machine(name: str, **more: Any) -> Machine:
    key, request = identity.new_key_and_request()
    return Machine(name, key, request.decode(), **more)


class Service:
    """The running service and stubs for those who call it."""

    def __init__(
        self,
        mesh: Mesh,
        edge: Edge,
        *,
        port: int,
        join_port: int,
        reactions: Mapping[str, Reaction],
    ) -> None:
        self.mesh = mesh
        self.edge = edge
        self.port = port
        self.join_port = join_port
        self.reactions = reactions
        self.trust = (mesh.folder / "root" / "cert.pem").read_bytes()
        self._channels: list[grpc.aio.Channel] = []
        self.admission = self.stub(mesh.service("admission"))
        self.operator = self.stub(mesh.person("spiffe://leasehold/operator/ann", "operator"))
        # Speaks for tenants: see ``as_tenant``.
        self.gateway = self.stub(mesh.service("gateway"))

    def stub(self, shown: identity.Identity) -> placement_service_pb2_grpc.PlacementServiceStub:
        return placement_service_pb2_grpc.PlacementServiceStub(self._channel(self.port, shown))

    def joins(self) -> node_service_pb2_grpc.JoinServiceStub:
        return node_service_pb2_grpc.JoinServiceStub(self._channel(self.join_port, None))

    async def invite(self, node_id: str = "", seconds: int = 0) -> pb.IssueJoinTokenResponse:
        request = pb.IssueJoinTokenRequest(source="local", seconds_valid=seconds, node_id=node_id)
        return await self.operator.IssueJoinToken(request, timeout=5)

    async def node(self, name: str, **more: Any) -> node_service_pb2_grpc.NodeServiceStub:
        """A machine that has joined, and speaks with the certificate it was given."""
        joining = machine(name, **more)
        answer = await self.joins().JoinNode(
            joining.join_request((await self.invite()).token), timeout=5
        )
        return self.node_stub(joining, answer)

    def node_stub(
        self, joined: Machine, answer: node_pb.JoinNodeResponse
    ) -> node_service_pb2_grpc.NodeServiceStub:
        folder = self.mesh.folder / answer.node_id
        identity.write(
            folder,
            joined.key,
            answer.certificate_chain.encode(),
            answer.trust_bundle.encode(),
        )
        shown = identity.Identity(folder)
        return node_service_pb2_grpc.NodeServiceStub(self._channel(self.port, shown))

    async def hold(self, lease_id: str, count: int = 1) -> pb.HoldResult:
        request = pb.PlaceHoldsRequest(
            holds=[
                pb.HoldRequest(
                    lease_id=lease_id,
                    tenant_id=TENANT,
                    workload_id=workload(lease_id),
                    gpu_model="H100",
                    gpu_count=count,
                )
            ]
        )
        return (await self.admission.PlaceHolds(request, timeout=5)).results[0]

    async def react(self, topic: str, aggregate_id: str, **data: Any) -> None:
        """As if another service had published this."""
        event = Incoming(
            source=topic.partition(".")[0],
            position=1,
            topic=topic,
            aggregate_id=aggregate_id,
            tenant_id=TENANT,
            correlation_id=aggregate_id,
            data=data,
            meta={},
        )
        await self.edge.act(lambda at: self.reactions[topic](event, at))

    async def admit(self, lease_id: str, count: int = 1) -> None:
        await self.react(
            "admission.workload.admitted",
            workload(lease_id),
            lease_id=lease_id,
            intent=intent(gpu_count=count),
        )

    async def lease(self, lease_id: str, count: int = 1) -> None:
        assert not (await self.hold(lease_id, count)).refusal
        await self.admit(lease_id, count)

    async def get_lease(self, lease_id: str) -> node_pb2.Lease:
        request = pb.GetLeaseRequest(lease_id=lease_id)
        return (await self.operator.GetLease(request, timeout=5)).lease

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def _channel(self, port: int, shown: identity.Identity | None) -> grpc.aio.Channel:
        channel = raw_channel(port, shown, self.trust, "placement")
        self._channels.append(channel)
        return channel


@asynccontextmanager
async def serving(folder: Path, database_url: str, **chosen: Any) -> AsyncIterator[Service]:
    mesh = Mesh(folder)
    shown = mesh.service("placement")
    with psycopg.connect(database_url) as connection:
        connection.execute("drop schema if exists placement cascade")
        tables = schema.ddl("placement", "current_user") + logs.ddl("placement", "current_user")
        connection.execute(tables.encode())
    store = Store(database_url, "placement")
    placement = Placement(store)
    head = Leader(store, "test", 60_000).acquire()
    assert head is not None
    writer = Writer(placement, store, head)
    writer.start()
    edge = Edge("placement", writer, Channels(shown, {}))
    settings = PlacementSettings(
        postgres_url=Secret(database_url),
        nats_url=Secret("nats://nowhere"),
        identity_dir=folder / "placement",
        node_ca_dir=folder / "node_ca",
        grpc_port=0,
        metrics_port=0,
        join_port=servers.free_port(),
        **chosen,
    )
    part = assemble(placement, settings, edge)
    server = await serve_grpc("127.0.0.1", 0, shown, part.servicers, TABLE)
    tasks = [asyncio.ensure_future(workflow()) for workflow in part.workflows]
    service = Service(
        mesh, edge, port=server.port, join_port=settings.join_port, reactions=part.reactions
    )
    try:
        yield service
    finally:
        await service.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop(0)
        await asyncio.to_thread(writer.stop)
        await asyncio.to_thread(store.close)


def sync(node: Any, *statuses: node_pb.RunStatus, revision: int = 0, wait_ms: int = 0) -> Any:
    request = node_pb.SyncNodeRequest(
        boot_id="boot-1", statuses=statuses, revision=revision, wait_ms=wait_ms
    )
    return node.SyncNode(request, timeout=30)


def append(node: Any, lease_id: str, offset: int, data: bytes) -> Any:
    chunk = node_pb.LogChunk(lease_id=lease_id, offset=offset, data=data)
    return node.AppendLogs(node_pb.AppendLogsRequest(chunks=[chunk]), timeout=5)


def running(told: node_pb.Assignment, run_us: int) -> node_pb.RunStatus:
    return node_pb.RunStatus(
        lease_id=told.lease_id,
        fencing_token=told.fencing_token,
        state=node_pb.RUN_STATE_RUNNING,
        run_us=run_us,
    )


def exited(told: node_pb.Assignment, run_us: int) -> node_pb.RunStatus:
    return node_pb.RunStatus(
        lease_id=told.lease_id,
        fencing_token=told.fencing_token,
        state=node_pb.RUN_STATE_EXITED,
        run_us=run_us,
    )
