"""The gRPC face of funding and of the ledger as it was. Translates and delegates.

What looks back reads the log in the database, page by page, beside the writer.
"""

import asyncio

import grpc

from billing import wire, wire_funding
from billing.api import WITH_POSTINGS
from billing.application import Billing
from billing.bitemporal import OPENED, Picture
from chassis.callers import caller
from chassis.edge import Edge
from chassis.errors import Invalid
from chassis.store import Store
from leasehold.billing.v1 import funding_service_pb2 as pb
from leasehold.billing.v1 import funding_service_pb2_grpc as pb_grpc

_PAGE = 1_000


class FundingService(pb_grpc.FundingServiceServicer):
    def __init__(self, billing: Billing, edge: Edge) -> None:
        self._billing = billing
        self._edge = edge
        assert isinstance(billing.log, Store)
        self._log = billing.log

    async def SetTerms(
        self, request: pb.SetTermsRequest, context: grpc.aio.ServicerContext
    ) -> pb.SetTermsResponse:
        def run(at: int) -> pb.SetTermsResponse:
            funds = self._billing.set_terms(
                request.tenant_id, request.zone, request.credit_limit_nanos, at=at
            )
            return pb.SetTermsResponse(funds=wire_funding.funds(funds))

        return await self._edge.command(context, request, pb.SetTermsResponse, run)

    async def GrantPromo(
        self, request: pb.GrantPromoRequest, context: grpc.aio.ServicerContext
    ) -> pb.GrantPromoResponse:
        grant = wire_funding.grant(request)

        def run(at: int) -> pb.GrantPromoResponse:
            funds = self._billing.grant_promo(request.tenant_id, grant, at=at)
            return pb.GrantPromoResponse(funds=wire_funding.funds(funds))

        return await self._edge.command(context, request, pb.GrantPromoResponse, run)

    async def GetFunds(
        self, request: pb.GetFundsRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetFundsResponse:
        tenant_id = _one_tenant(request.tenant_id, context)
        return await self._edge.query(
            lambda: pb.GetFundsResponse(funds=wire_funding.funds(self._billing.funds(tenant_id)))
        )

    async def ListPeriods(
        self, request: pb.ListPeriodsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListPeriodsResponse:
        tenant_id = _one_tenant(request.tenant_id, context)
        return await self._edge.query(
            lambda: pb.ListPeriodsResponse(
                periods=map(wire_funding.period, self._billing.periods.tenants.get(tenant_id, []))
            )
        )

    async def CreditLine(
        self, request: pb.CreditLineRequest, context: grpc.aio.ServicerContext
    ) -> pb.CreditLineResponse:
        def run(at: int) -> pb.CreditLineResponse:
            note = self._billing.credit_line(
                request.invoice_id, request.line, request.amount_nanos, request.reason, at=at
            )
            return pb.CreditLineResponse(credit_note=wire.credit_note(note))

        return await self._edge.command(context, request, pb.CreditLineResponse, run)

    async def SetBudget(
        self, request: pb.SetBudgetRequest, context: grpc.aio.ServicerContext
    ) -> pb.SetBudgetResponse:
        tenant_id, role = _one_tenant(request.tenant_id, context), caller(context).role
        project = wire_funding.project(request.project)

        def run(at: int) -> pb.SetBudgetResponse:
            budget = self._billing.set_budget(
                tenant_id, project, request.soft_nanos, request.hard_nanos, role, at=at
            )
            return pb.SetBudgetResponse(budget=wire_funding.budget(budget))

        return await self._edge.command(context, request, pb.SetBudgetResponse, run)

    async def ListBudgets(
        self, request: pb.ListBudgetsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListBudgetsResponse:
        tenant_id = _one_tenant(request.tenant_id, context)

        def ask() -> pb.ListBudgetsResponse:
            budgets = self._billing.list_budgets(tenant_id, self._edge.now())
            return pb.ListBudgetsResponse(budgets=map(wire_funding.budget, budgets))

        return await self._edge.query(ask)

    async def GetLedger(
        self, request: pb.GetLedgerRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetLedgerResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        as_of, as_known = wire_funding.times(request)
        picture = await asyncio.to_thread(self._picture, tenant_id, as_of, as_known)
        return wire_funding.ledger(picture)

    async def VerifyLedger(
        self, request: pb.VerifyLedgerRequest, context: grpc.aio.ServicerContext
    ) -> pb.VerifyLedgerResponse:
        served = await self._edge.query(
            lambda: (
                self._billing.head.position,
                {name: dict(rows) for name, rows in self._billing.ledger.balances.items()},
            )
        )
        position, balances = served
        picture = await asyncio.to_thread(self._picture, "", 0, 0, position)
        faults = [f"the event at {one} does not balance" for one in picture.unbalanced]
        if {name: rows for name, rows in picture.balances.items() if rows} != {
            name: rows for name, rows in balances.items() if rows
        }:
            faults.append("the balances that are served are not those of the log")
        return pb.VerifyLedgerResponse(position=position, events=picture.events, faults=faults)

    def _picture(self, tenant_id: str, as_of: int, as_known: int, until: int = 0) -> Picture:
        picture, after = Picture(), 0
        topics = [OPENED, *WITH_POSTINGS]
        cuts = {"as_of": as_of, "as_known": as_known} if as_of else {}
        while rows := self._log.read(after, _PAGE, until=until, topics=topics, tenant_id=tenant_id):
            picture.take(rows, **cuts)
            after = rows[-1].position
        return picture


def _one_tenant(requested: str, context: grpc.aio.ServicerContext) -> str:
    tenant_id = caller(context).scope(requested)
    if not tenant_id:
        raise Invalid("tenant_id is missing", code="TENANT_ID", field="tenant_id")
    return tenant_id
