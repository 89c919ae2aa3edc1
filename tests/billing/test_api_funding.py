"""Funding and the ledger as it was, behind the real port."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from billing.money import NANOS
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import funding_service_pb2 as pb
from leasehold.billing.v1.funding_service_pb2_grpc import FundingServiceStub
from tests.billing.serving import Service, serving
from tests.billing.test_api import BOB, UNKNOWN, WAIT, funded, ran
from tests.billing.world import SECOND
from tests.calls import refusal

Scenario = Callable[[Service, FundingServiceStub, FundingServiceStub], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path, database_url: str) -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def with_service() -> None:
            async with serving(tmp_path, database_url) as service:
                stubs = [
                    FundingServiceStub(service.channel(who)) for who in ("operator", "gateway")
                ]
                await scenario(service, *stubs)

        asyncio.run(with_service())

    return run


def test_terms_promos_and_budgets_are_what_was_set(play: Any) -> None:
    async def scenario(
        service: Service, operator: FundingServiceStub, gateway: FundingServiceStub
    ) -> None:
        await funded(service)
        tenant_id = (await gateway.GetFunds(pb.GetFundsRequest(), **BOB)).funds.tenant_id
        terms = pb.SetTermsRequest(
            tenant_id=tenant_id, zone="Europe/Zurich", credit_limit_nanos=NANOS
        )
        funds = (await operator.SetTerms(terms, **WAIT)).funds
        assert (funds.zone, funds.available_nanos) == ("Europe/Zurich", 11 * NANOS)
        budget = pb.SetBudgetRequest(project="research", hard_nanos=NANOS)
        assert (await gateway.SetBudget(budget, **BOB)).budget.hard_nanos == NANOS
        listed = (await gateway.ListBudgets(pb.ListBudgetsRequest(), **BOB)).budgets
        assert [one.project for one in listed] == ["research"]

    play(scenario)


def test_the_ledger_is_verified_and_can_be_asked_about_the_past(play: Any) -> None:
    async def scenario(
        service: Service, operator: FundingServiceStub, gateway: FundingServiceStub
    ) -> None:
        await funded(service)
        await ran(service, 10 * SECOND)
        await service.gateway.IssueInvoice(billing_pb.IssueInvoiceRequest(), **BOB)
        checked = await operator.VerifyLedger(pb.VerifyLedgerRequest(), **WAIT)
        assert (list(checked.faults), checked.events > 3) == ([], True)
        now = await gateway.GetLedger(pb.GetLedgerRequest(), **BOB)
        assert sum(one.amount_nanos for one in now.balances) == 0
        assert len(now.costs) == 1
        before = await gateway.GetLedger(pb.GetLedgerRequest(as_known=1), **BOB)
        assert list(before.balances) == []

    play(scenario)


def test_another_tenants_funds_do_not_exist(play: Any) -> None:
    async def scenario(
        service: Service, operator: FundingServiceStub, gateway: FundingServiceStub
    ) -> None:
        await funded(service)
        asked = gateway.GetFunds(pb.GetFundsRequest(tenant_id="ten_x"), **BOB)
        assert (await refusal(asked))[0] == UNKNOWN

    play(scenario)
