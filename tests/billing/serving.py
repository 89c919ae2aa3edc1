"""Billing behind its real port: mutual TLS, a writer, PostgreSQL. Only the bus is missing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import grpc
import psycopg
from google.protobuf import json_format
from google.protobuf.message import Message

from billing.__main__ import BillingSettings, assemble
from billing.application import Billing
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
from leasehold.billing.v1.billing_service_pb2_grpc import BillingServiceStub
from leasehold.billing.v1.pricing_service_pb2_grpc import PricingServiceStub
from leasehold.gateway.v1 import tenant_events_pb2
from leasehold.placement.v1 import lease_events_pb2
from tests.chassis.mesh import Mesh, raw_channel

T = TypeVar("T")

# The message of each event that billing reacts to.
MESSAGES: dict[str, type[Message]] = {
    "gateway.tenant.signed_up": tenant_events_pb2.TenantSignedUp,
    "placement.lease.bound": lease_events_pb2.LeaseBound,
    "placement.lease.activated": lease_events_pb2.LeaseActivated,
    "placement.lease.ended": lease_events_pb2.LeaseEnded,
    "placement.lease.constrained": lease_events_pb2.LeaseConstrained,
    "placement.lease.lapsed": lease_events_pb2.LeaseLapsed,
    "placement.lease.bind_refused": lease_events_pb2.LeaseBindRefused,
}


class Service:
    """The running service and stubs for those who call it."""

    def __init__(
        self, mesh: Mesh, edge: Edge, billing: Billing, port: int, table: Mapping[str, Reaction]
    ) -> None:
        self.edge = edge
        self.billing = billing
        self.reactions = table
        self._mesh = mesh
        self._port = port
        self._channels: list[grpc.aio.Channel] = []
        self.admission = self._stub(mesh.service("admission"))
        self.operator = self._stub(mesh.person("spiffe://leasehold/operator/ann", "operator"))
        self.pricing = PricingServiceStub(self._channels[-1])
        # Speaks for tenants: see ``as_tenant``.
        self.gateway = self._stub(mesh.service("gateway"))

    def node(self, node_id: str) -> BillingServiceStub:
        return self._stub(self._mesh.node(node_id))

    async def react(self, topic: str, aggregate_id: str, tenant_id: str, **data: Any) -> None:
        """As if another service had published this; its facts must parse as its message."""
        json_format.ParseDict(data, MESSAGES[topic]())
        event = Incoming(
            source=topic.partition(".")[0],
            position=1,
            topic=topic,
            aggregate_id=aggregate_id,
            tenant_id=tenant_id,
            correlation_id=f"wl_of_{aggregate_id}",
            data=data,
            meta={},
        )
        await self.edge.act(lambda at: self.reactions[topic](event, at))

    async def seen(self, what: Callable[[Billing], T]) -> T:
        """Something of the committed state."""
        return await self.edge.query(lambda: what(self.billing))

    def channel(self, folder: str) -> grpc.aio.Channel:
        """For whoever's identity is in this folder, such as "operator" or "gateway"."""
        return self._channel(identity.Identity(self._mesh.folder / folder))

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def _stub(self, shown: identity.Identity) -> BillingServiceStub:
        return BillingServiceStub(self._channel(shown))

    def _channel(self, shown: identity.Identity) -> grpc.aio.Channel:
        trust = (self._mesh.folder / "root" / "cert.pem").read_bytes()
        channel = raw_channel(self._port, shown, trust, "billing")
        self._channels.append(channel)
        return channel


@asynccontextmanager
async def serving(folder: Path, database_url: str, **chosen: Any) -> AsyncIterator[Service]:
    mesh = Mesh(folder)
    shown = mesh.service("billing")
    with psycopg.connect(database_url) as connection:
        connection.execute(schema.ddl("billing", "current_user").encode())
    store = Store(database_url, "billing")
    billing = Billing(store)
    head = Leader(store, "test", 60_000).acquire()
    assert head is not None
    writer = Writer(billing, store, head)
    writer.start()
    edge = Edge("billing", writer, Channels(shown, {}))
    part = assemble(billing, settings(folder / "billing", **chosen), edge)
    server = await serve_grpc("127.0.0.1", 0, shown, part.servicers, TABLE)
    tasks = [asyncio.ensure_future(workflow()) for workflow in part.workflows]
    service = Service(mesh, edge, billing, server.port, part.reactions)
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


def settings(identity_dir: Path, **chosen: Any) -> BillingSettings:
    return BillingSettings(
        postgres_url=Secret("postgresql://nowhere"),
        nats_url=Secret("nats://nowhere"),
        identity_dir=identity_dir,
        grpc_port=0,
        metrics_port=0,
        prices={"H100": Decimal("2.49")},
        **chosen,
    )
