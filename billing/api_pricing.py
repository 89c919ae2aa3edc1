"""The gRPC face of prices. Translates and delegates; decides nothing.

A comparison reads the log on a thread of its own, so that nobody waits for it.
"""

import asyncio

import grpc

from billing import commitments, what_if, wire_pricing
from billing.application import Billing
from chassis.callers import caller
from chassis.edge import Edge
from chassis.store import Store
from leasehold.billing.v1 import pricing_service_pb2 as pb
from leasehold.billing.v1 import pricing_service_pb2_grpc as pb_grpc

_PAGE = 5_000


class PricingService(pb_grpc.PricingServiceServicer):
    def __init__(self, billing: Billing, edge: Edge) -> None:
        self._billing = billing
        self._edge = edge
        assert isinstance(billing.log, Store)
        self._log = billing.log

    async def PublishPrices(
        self, request: pb.PublishPricesRequest, context: grpc.aio.ServicerContext
    ) -> pb.PublishPricesResponse:
        prices = wire_pricing.prices(request.prices)
        return await self._edge.command(
            context,
            request,
            pb.PublishPricesResponse,
            lambda at: wire_pricing.published(
                [self._billing.publish_price(price, at=at) for price in prices]
            ),
        )

    async def CompareBook(
        self, request: pb.CompareBookRequest, context: grpc.aio.ServicerContext
    ) -> pb.CompareBookResponse:
        prices = wire_pricing.prices(request.prices)
        since, until = wire_pricing.period(request)
        metered = await asyncio.to_thread(self._metered, request.tenant_id)
        rows = what_if.compare(metered.meters.values(), prices, since, until)
        return wire_pricing.differences(rows, metered.position)

    async def OpenCommitment(
        self, request: pb.OpenCommitmentRequest, context: grpc.aio.ServicerContext
    ) -> pb.OpenCommitmentResponse:
        terms = wire_pricing.terms(request.commitment)

        def run(at: int) -> pb.OpenCommitmentResponse:
            opened = commitments.facts(self._billing.open_commitment(**terms, at=at))
            return pb.OpenCommitmentResponse(commitment=pb.Commitment(**opened))

        return await self._edge.command(context, request, pb.OpenCommitmentResponse, run)

    async def ListCommitments(
        self, request: pb.ListCommitmentsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListCommitmentsResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        return await self._edge.query(
            lambda: pb.ListCommitmentsResponse(
                commitments=[
                    pb.Commitment(**row)
                    for _, row in sorted(self._billing.commitments.opened.items())
                    if tenant_id in ("", row["tenant_id"])
                ]
            )
        )

    async def ExchangePayment(
        self, request: pb.ExchangePaymentRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExchangePaymentResponse:
        payment = wire_pricing.payment(request)
        return await self._edge.command(
            context,
            request,
            pb.ExchangePaymentResponse,
            lambda at: pb.ExchangePaymentResponse(
                credited_nanos=self._billing.exchange(request.tenant_id, **payment, at=at)
            ),
        )

    def _metered(self, tenant_id: str) -> what_if.Metered:
        metered = what_if.Metered()
        while rows := self._log.read(
            metered.position, _PAGE, topics=what_if.TOPICS, tenant_id=tenant_id
        ):
            metered.take(rows)
        return metered
