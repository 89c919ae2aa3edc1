"""The gRPC face of billing. Translates and delegates; decides nothing.

A tenant sees its own money only: everybody else's ids are unknown to it.
"""

import asyncio
from collections import Counter

import grpc
import prometheus_client

from billing import wire
from billing.application import Billing
from billing.policy import Verdict
from chassis.callers import caller
from chassis.edge import Edge
from chassis.errors import Invalid
from chassis.events import event_classes
from chassis.metrics import REGISTRY
from chassis.store import Store
from leasehold.billing.v1 import billing_service_pb2 as pb
from leasehold.billing.v1 import billing_service_pb2_grpc as pb_grpc

SLICES = prometheus_client.Counter(
    "billing_slices_total", "Slices of nodes by what became of them", ["outcome"], registry=REGISTRY
)

WITH_POSTINGS = [
    kind.TOPIC  # type: ignore[attr-defined]
    for kind in event_classes(Billing.aggregates)
    if "postings" in kind.__dataclass_fields__  # type: ignore[attr-defined]
]


class BillingService(pb_grpc.BillingServiceServicer):
    def __init__(self, billing: Billing, edge: Edge) -> None:
        self._billing = billing
        self._edge = edge
        # What finance reads is what the database holds, not what this process remembers.
        assert isinstance(billing.log, Store)
        self._log = billing.log

    async def TopUp(
        self, request: pb.TopUpRequest, context: grpc.aio.ServicerContext
    ) -> pb.TopUpResponse:
        reference = wire.reference(request.reference)

        def run(at: int) -> pb.TopUpResponse:
            balance = self._billing.top_up(
                request.tenant_id, request.amount_nanos, request.currency, reference, at=at
            )
            return pb.TopUpResponse(balance=wire.balance(request.tenant_id, balance))

        return await self._edge.command(context, request, pb.TopUpResponse, run)

    async def GetBalance(
        self, request: pb.GetBalanceRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetBalanceResponse:
        tenant_id = _one_tenant(request.tenant_id, context)
        return await self._edge.query(
            lambda: pb.GetBalanceResponse(
                balance=wire.balance(tenant_id, self._billing.balance(tenant_id))
            )
        )

    async def PlaceHolds(
        self, request: pb.PlaceHoldsRequest, context: grpc.aio.ServicerContext
    ) -> pb.PlaceHoldsResponse:
        requests = wire.hold_requests(request)
        return await self._edge.command(
            context,
            request,
            pb.PlaceHoldsResponse,
            lambda at: wire.hold_results(self._billing.place_holds(requests, at=at)),
        )

    async def ReleaseHolds(
        self, request: pb.ReleaseHoldsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ReleaseHoldsResponse:
        lease_ids = wire.lease_ids(request)

        def run(at: int) -> pb.ReleaseHoldsResponse:
            self._billing.release_holds(lease_ids, "RELEASED", at=at)
            return pb.ReleaseHoldsResponse()

        return await self._edge.command(context, request, pb.ReleaseHoldsResponse, run)

    async def RecordSlices(
        self, request: pb.RecordSlicesRequest, context: grpc.aio.ServicerContext
    ) -> pb.RecordSlicesResponse:
        node_id, slices = caller(context).name, wire.slices(request)

        verdicts: list[Verdict] = []

        def run(at: int) -> pb.RecordSlicesResponse:
            verdicts.extend(self._billing.record_slices(node_id, slices, at=at))
            return wire.outcomes(verdicts)

        response = await self._edge.command(context, request, pb.RecordSlicesResponse, run)
        for verdict, count in Counter(verdicts).items():
            SLICES.labels(verdict.value).inc(count)
        return response

    async def GetCosts(
        self, request: pb.GetCostsRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetCostsResponse:
        tenant_id = _one_tenant(request.tenant_id, context)

        def ask() -> pb.GetCostsResponse:
            balance = self._billing.balance(tenant_id)
            leases = self._billing.costs.tenants.get(tenant_id, {}).values()
            return pb.GetCostsResponse(
                leases=[wire.lease_cost(lease) for lease in leases],
                balance=wire.balance(tenant_id, balance),
            )

        return await self._edge.query(ask)

    async def IssueInvoice(
        self, request: pb.IssueInvoiceRequest, context: grpc.aio.ServicerContext
    ) -> pb.IssueInvoiceResponse:
        tenant_id = _one_tenant(request.tenant_id, context)

        def run(at: int) -> pb.IssueInvoiceResponse:
            issued = self._billing.issue_invoice(tenant_id, at=at)
            return pb.IssueInvoiceResponse(invoice=wire.invoice(issued))

        return await self._edge.command(context, request, pb.IssueInvoiceResponse, run)

    async def GetInvoice(
        self, request: pb.GetInvoiceRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetInvoiceResponse:
        tenant_id = caller(context).scope("")
        return await self._edge.query(
            lambda: pb.GetInvoiceResponse(
                invoice=wire.invoice(self._billing.invoice(request.invoice_id, tenant_id))
            )
        )

    async def ListInvoices(
        self, request: pb.ListInvoicesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListInvoicesResponse:
        tenant_id = _one_tenant(request.tenant_id, context)
        return await self._edge.query(
            lambda: pb.ListInvoicesResponse(
                invoices=[wire.invoice(one) for one in self._billing.invoices.of(tenant_id)]
            )
        )

    async def ListPrices(
        self, request: pb.ListPricesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListPricesResponse:
        return await self._edge.query(
            lambda: pb.ListPricesResponse(
                prices=[pb.Price(**row) for row in self._billing.prices.published]
            )
        )

    async def PublishPrice(
        self, request: pb.PublishPriceRequest, context: grpc.aio.ServicerContext
    ) -> pb.PublishPriceResponse:
        price = wire.price(request.price)

        def run(at: int) -> pb.PublishPriceResponse:
            published = self._billing.publish_price(price, at=at)
            return pb.PublishPriceResponse(price=wire.price_message(published))

        return await self._edge.command(context, request, pb.PublishPriceResponse, run)

    async def ListPostings(
        self, request: pb.ListPostingsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListPostingsResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        size = wire.page_size(request)
        rows = await asyncio.to_thread(
            self._log.read, request.after, size, topics=WITH_POSTINGS, tenant_id=tenant_id
        )
        return pb.ListPostingsResponse(
            entries=wire.posted_entries(rows),
            next_after=rows[-1].position if len(rows) == size else 0,
        )


def _one_tenant(requested: str, context: grpc.aio.ServicerContext) -> str:
    tenant_id = caller(context).scope(requested)
    if not tenant_id:
        raise Invalid("tenant_id is missing", code="TENANT_ID", field="tenant_id")
    return tenant_id
