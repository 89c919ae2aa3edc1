"""Admission behind its real port, with keepers behind theirs: mutual TLS, a writer, PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
import psycopg
from google.protobuf import json_format
from google.protobuf.message import Message

from admission.__main__ import AdmissionSettings, assemble
from admission.application import Admission
from admission.domain import Workload
from chassis import identity, schema
from chassis.channels import Channels
from chassis.edge import Edge
from chassis.incoming import Incoming, Reaction
from chassis.leader import Leader
from chassis.rpc import GrpcServer, error_from_rpc, serve_grpc
from chassis.setting_values import Secret
from chassis.store import Store
from chassis.writer import Writer
from leasehold.admission.v1 import admission_service_pb2 as pb
from leasehold.admission.v1 import intent_pb2, workload_pb2
from leasehold.admission.v1.admission_service_pb2_grpc import AdmissionServiceStub
from leasehold.authorisation import TABLE
from leasehold.billing.v1.billing_service_pb2_grpc import add_BillingServiceServicer_to_server
from leasehold.gateway.v1 import tenant_events_pb2
from leasehold.placement.v1 import lease_events_pb2, node_events_pb2
from leasehold.placement.v1.placement_service_pb2_grpc import (
    add_PlacementServiceServicer_to_server,
)
from tests.admission.keepers import Billing, Placement
from tests.admission.stage import intent
from tests.chassis.mesh import Mesh, raw_channel
from tests.servers import free_port
from tests.waiting import wait_until

T = TypeVar("T")

# The message of each event that admission reacts to.
MESSAGES: dict[str, type[Message]] = {
    "gateway.tenant.signed_up": tenant_events_pb2.TenantSignedUp,
    "gateway.tenant.suspended": tenant_events_pb2.TenantSuspended,
    "gateway.tenant.resumed": tenant_events_pb2.TenantResumed,
    "placement.lease.activated": lease_events_pb2.LeaseActivated,
    "placement.lease.ended": lease_events_pb2.LeaseEnded,
    "placement.lease.lapsed": lease_events_pb2.LeaseLapsed,
    "placement.lease.bind_refused": lease_events_pb2.LeaseBindRefused,
    "placement.node.joined": node_events_pb2.NodeJoined,
}


class Service:
    """The running service, its keepers, and stubs for those who call it."""

    def __init__(self, mesh: Mesh, edge: Edge, admission: Admission, port: int) -> None:
        self.edge = edge
        self.admission = admission
        self.placement = Placement()
        self.billing = Billing()
        self.reactions: Mapping[str, Reaction] = {}
        self.loops: list[asyncio.Task[None]] = []
        self._mesh = mesh
        self._port = port
        self._channels: list[grpc.aio.Channel] = []
        self.operator = self._stub(mesh.person("spiffe://leasehold/operator/ann", "operator"))
        # Speaks for tenants: see ``as_tenant``.
        self.gateway = self._stub(mesh.service("gateway"))

    async def react(self, topic: str, aggregate_id: str, tenant_id: str = "", **data: Any) -> None:
        """As if another service had published this; its facts must parse as its message."""
        json_format.ParseDict(data, MESSAGES[topic]())
        event = Incoming(
            source=topic.partition(".")[0],
            position=1,
            topic=topic,
            aggregate_id=aggregate_id,
            tenant_id=tenant_id,
            correlation_id=aggregate_id,
            data=data,
            meta={},
        )
        await self.edge.act(lambda at: self.reactions[topic](event, at))

    async def sign_up(self, tenant_id: str) -> None:
        await self.react(
            "gateway.tenant.signed_up", tenant_id, tenant_id, name="acme", project="vision"
        )

    async def submit(self, tenant_id: str, **job: Any) -> str:
        request = pb.SubmitWorkloadRequest(intent=message(**job))
        answer = await self.gateway.SubmitWorkload(
            request, timeout=5, metadata=as_tenant(tenant_id)
        )
        return str(answer.workload.workload_id)

    async def seen(self, what: Callable[[Admission], T]) -> T:
        """Something of the committed state."""
        return await self.edge.query(lambda: what(self.admission))

    async def shown(self, workload_id: str) -> workload_pb2.Workload:
        request = pb.GetWorkloadRequest(workload_id=workload_id)
        answer = await self.operator.GetWorkload(request, timeout=5)
        found: workload_pb2.Workload = answer.workload
        return found

    async def until(self, workload_id: str, **facts: Any) -> None:
        """Wait until the workload's attributes have these values."""

        def agree(admission: Admission) -> bool:
            workload: Workload = admission.workload(workload_id)
            return all(getattr(workload, name) == value for name, value in facts.items())

        await wait_until(lambda: self.seen(agree), seconds=15, what=f"{workload_id}: {facts}")

    async def close(self) -> None:
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)
        for channel in self._channels:
            await channel.close()

    def _stub(self, shown: identity.Identity) -> AdmissionServiceStub:
        trust = (self._mesh.folder / "root" / "cert.pem").read_bytes()
        channel = raw_channel(self._port, shown, trust, "admission")
        self._channels.append(channel)
        return AdmissionServiceStub(channel)


class Keepers:
    """The servers of placement and billing, which can be away."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._ports = {name: free_port() for name in ("gateway", "placement", "billing")}
        self._servers: dict[str, GrpcServer] = {}

    @property
    def peers(self) -> dict[str, str]:
        return {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}

    async def start(self, name: str, add: Any, servicer: Any) -> None:
        shown = self._mesh.service(name)
        self._servers[name] = await serve_grpc(
            "127.0.0.1", self._ports[name], shown, [(add, servicer)], TABLE
        )

    async def start_placement(self, placement: Placement) -> None:
        await self.start("placement", add_PlacementServiceServicer_to_server, placement)

    async def start_billing(self, billing: Billing) -> None:
        await self.start("billing", add_BillingServiceServicer_to_server, billing)

    async def stop(self) -> None:
        for server in self._servers.values():
            await server.stop(0)


@asynccontextmanager
async def serving(
    folder: Path, database_url: str, *, away: tuple[str, ...] = (), looping: bool = True
) -> AsyncIterator[tuple[Service, Keepers]]:
    """Admission and those keepers that are not away; without its loop if not ``looping``."""
    mesh = Mesh(folder)
    shown, keepers = mesh.service("admission"), Keepers(mesh)
    with psycopg.connect(database_url) as connection:
        connection.execute(schema.ddl("admission", "current_user").encode())
    store = Store(database_url, "admission")
    admission = Admission(store)
    head = Leader(store, "test", 60_000).acquire()
    assert head is not None
    writer = Writer(admission, store, head)
    writer.start()
    channels = Channels(shown, keepers.peers)
    edge = Edge("admission", writer, channels)
    part = assemble(admission, settings(folder / "admission", keepers.peers), edge)
    server = await serve_grpc("127.0.0.1", 0, shown, part.servicers, TABLE)
    service = Service(mesh, edge, admission, server.port)
    service.reactions = part.reactions
    if "placement" not in away:
        await keepers.start_placement(service.placement)
    if "billing" not in away:
        await keepers.start_billing(service.billing)
    if looping:
        service.loops = [asyncio.ensure_future(workflow()) for workflow in part.workflows]
    try:
        yield service, keepers
    finally:
        await service.close()
        await server.stop(0)
        await keepers.stop()
        await channels.close()
        await asyncio.to_thread(writer.stop)
        await asyncio.to_thread(store.close)


def settings(folder: Path, peers: dict[str, str]) -> AdmissionSettings:
    return AdmissionSettings(
        postgres_url=Secret("postgresql://nowhere"),
        nats_url=Secret("nats://nowhere"),
        identity_dir=folder,
        grpc_port=0,
        metrics_port=0,
        peers=peers,
    )


def message(**job: Any) -> intent_pb2.Intent:
    return json_format.ParseDict(intent(**job), intent_pb2.Intent())


def as_tenant(tenant_id: str, role: str = "tenant_user") -> list[tuple[str, str]]:
    """The metadata with which the gateway speaks for somebody of a tenant."""
    return [
        ("x-leasehold-role", role),
        ("x-leasehold-tenant", tenant_id),
        ("x-leasehold-actor", "tenant:bob"),
    ]


async def refusal(call: Any) -> tuple[str, str]:
    """How a call is refused: its status and the stable code."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, error_from_rpc(error).code
    raise AssertionError("the call was not refused")
