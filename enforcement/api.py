"""The gRPC face of enforcement. Translates and delegates; decides nothing."""

import grpc
from prometheus_client import Counter

from chassis.callers import caller
from chassis.edge import Edge
from chassis.metrics import REGISTRY
from enforcement import wire
from enforcement.application import Enforcement
from leasehold.enforcement.v1 import enforcement_service_pb2 as pb
from leasehold.enforcement.v1 import enforcement_service_pb2_grpc as pb_grpc

SAMPLES = Counter(
    "enforcement_samples_total",
    "Telemetry readings by what became of them",
    ["outcome"],
    registry=REGISTRY,
)


class EnforcementService(pb_grpc.EnforcementServiceServicer):
    def __init__(self, enforcement: Enforcement, edge: Edge) -> None:
        self._enforcement = enforcement
        self._edge = edge

    async def ReportTelemetry(
        self, request: pb.ReportTelemetryRequest, context: grpc.aio.ServicerContext
    ) -> pb.ReportTelemetryResponse:
        node_id, samples = caller(context).name, wire.samples(request)
        flagged = await self._edge.act(
            lambda at: self._enforcement.report(node_id, request.boot_id, samples, at=at)
        )
        accepted = len(samples) - len(flagged)
        SAMPLES.labels("accepted").inc(accepted)
        SAMPLES.labels("flagged").inc(len(flagged))
        return pb.ReportTelemetryResponse(accepted=accepted, flagged=flagged)

    async def ListGuards(
        self, request: pb.ListGuardsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListGuardsResponse:
        tenant_id = caller(context).scope("")
        guards = await self._edge.query(
            lambda: [wire.guard(*found) for found in self._enforcement.guards(tenant_id)]
        )
        return pb.ListGuardsResponse(guards=guards)
