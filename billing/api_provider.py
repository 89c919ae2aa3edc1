"""The gRPC face of the provider's side. Translates and delegates; for finance and operators."""

import grpc

from billing import wire, wire_provider
from billing.providers import Providers
from chassis.edge import Edge
from leasehold.billing.v1 import provider_service_pb2 as pb
from leasehold.billing.v1 import provider_service_pb2_grpc as pb_grpc


class ProviderService(pb_grpc.ProviderServiceServicer):
    def __init__(self, billing: Providers, edge: Edge) -> None:
        self._billing = billing
        self._edge = edge

    async def ListProviderCosts(
        self, request: pb.ListProviderCostsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListProviderCostsResponse:
        def ask() -> pb.ListProviderCostsResponse:
            rows = self._billing.machines.rows.items()
            return pb.ListProviderCostsResponse(
                costs=[
                    wire_provider.cost(meter_id, row)
                    for meter_id, row in rows
                    if request.source_id in ("", row["source_id"])
                ]
            )

        return await self._edge.query(ask)

    async def ImportProviderBill(
        self, request: pb.ImportProviderBillRequest, context: grpc.aio.ServicerContext
    ) -> pb.ImportProviderBillResponse:
        lines = wire_provider.bill_lines(request)

        def run(at: int) -> pb.ImportProviderBillResponse:
            bill, known = self._billing.import_bill(
                request.bill_id, request.source_id, request.currency, lines, at=at
            )
            return pb.ImportProviderBillResponse(
                bill_id=bill.bill_id,
                total_nanos=bill.total_nanos,
                line_count=bill.line_count,
                known=known,
            )

        return await self._edge.command(context, request, pb.ImportProviderBillResponse, run)

    async def MatchDay(
        self, request: pb.MatchDayRequest, context: grpc.aio.ServicerContext
    ) -> pb.MatchDayResponse:
        day, now = wire_provider.day(request.day), self._edge.now()

        def ask() -> pb.MatchDayResponse:
            machines = self._billing.match_machines(day, request.source_id, at=now)
            leases = self._billing.match_leases(day, request.source_id, at=now)
            return pb.MatchDayResponse(
                day=request.day,
                machines=map(wire_provider.machine, machines),
                leases=map(wire_provider.lease, leases),
            )

        return await self._edge.query(ask)

    async def AcceptMatch(
        self, request: pb.AcceptMatchRequest, context: grpc.aio.ServicerContext
    ) -> pb.AcceptMatchResponse:
        day = wire_provider.day(request.day)
        source_id = wire.name(request.source_id, "source_id")
        provider_id = wire_provider.provider_id(request.provider_id)

        def run(at: int) -> pb.AcceptMatchResponse:
            row, posted = self._billing.accept_match(day, source_id, provider_id, at=at)
            return pb.AcceptMatchResponse(machine=wire_provider.machine(row), posted_nanos=posted)

        return await self._edge.command(context, request, pb.AcceptMatchResponse, run)

    async def GetMargin(
        self, request: pb.GetMarginRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetMarginResponse:
        by, now = wire_provider.by(request.by), self._edge.now()
        from_at, until_at = wire_provider.hours(request, now)

        def ask() -> pb.GetMarginResponse:
            rows = self._billing.margin(by, from_at, until_at, at=now)
            return pb.GetMarginResponse(
                rows=map(wire_provider.margin, rows), from_at=from_at, until_at=until_at
            )

        return await self._edge.query(ask)
