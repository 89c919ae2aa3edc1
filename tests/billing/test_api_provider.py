"""The provider's side over gRPC: finance imports and accepts, operators look, others do not."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from pathlib import Path

import grpc

from billing.application import Billing
from billing.provider_cost import DAY_US
from chassis.clock import now
from chassis.store import Store
from leasehold.billing.v1 import provider_events_pb2 as events
from leasehold.billing.v1 import provider_service_pb2 as pb
from leasehold.billing.v1.provider_service_pb2_grpc import ProviderServiceStub
from tests.billing.provider_world import PRICE, SOURCE
from tests.billing.serving import Service, serving
from tests.calls import as_tenant, refusal

FINANCE = {
    "metadata": (("x-leasehold-role", "finance"), ("x-leasehold-actor", "finance:fay")),
    "timeout": 5,
}
BOB = {"metadata": as_tenant("ten_acme", "tenant_admin"), "timeout": 5}
DENIED, INVALID = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT


def test_a_bill_is_imported_matched_and_accepted(tmp_path: Path, database_url: str) -> None:
    async def scenario(service: Service) -> None:
        stub = ProviderServiceStub(service.channel("gateway"))
        day = now() // DAY_US - 2
        request = bill(day)
        first = await stub.ImportProviderBill(request, **FINANCE)
        assert (first.known, first.total_nanos, first.line_count) == (False, 24 * PRICE, 1)
        assert (await stub.ImportProviderBill(request, **FINANCE)).known
        request.lines[0].amount_nanos += 1
        assert (await refusal(stub.ImportProviderBill(request, **FINANCE)))[1] == "BILL_REUSED"
        date = shown(day)
        matched = await stub.MatchDay(pb.MatchDayRequest(day=date), **FINANCE)
        assert matched.machines[0].outcome == pb.MATCH_OUTCOME_UNKNOWN_MACHINE
        asked = pb.AcceptMatchRequest(day=date, source_id=SOURCE, provider_id="vm_9")
        assert (await stub.AcceptMatch(asked, **FINANCE)).posted_nanos == 24 * PRICE
        leaked = await service.seen(lambda billing: billing.ledger.balances["USD"])
        assert leaked[f"expense:leak:{SOURCE}"] == 24 * PRICE
        assert await service.seen(Billing.state) == rebuilt(database_url)

    play(tmp_path, database_url, scenario)


def test_only_staff_sees_costs_and_only_finance_accepts(tmp_path: Path, database_url: str) -> None:
    async def scenario(service: Service) -> None:
        stub = ProviderServiceStub(service.channel("gateway"))
        operator = ProviderServiceStub(service.channel("operator"))
        for call in (
            stub.GetMargin(pb.GetMarginRequest(by="sku"), **BOB),
            stub.ListProviderCosts(pb.ListProviderCostsRequest(), **BOB),
        ):
            assert (await refusal(call))[0] is DENIED
        asked = pb.AcceptMatchRequest(day="2026-01-01", source_id=SOURCE, provider_id="vm_9")
        assert (await refusal(operator.AcceptMatch(asked, timeout=5)))[0] is DENIED
        costs = await operator.ListProviderCosts(pb.ListProviderCostsRequest(), timeout=5)
        assert list(costs.costs) == []
        margin = await operator.GetMargin(pb.GetMarginRequest(by="tenant"), timeout=5)
        assert list(margin.rows) == []

    play(tmp_path, database_url, scenario)


def test_what_makes_no_sense_is_refused(tmp_path: Path, database_url: str) -> None:
    async def scenario(service: Service) -> None:
        stub = ProviderServiceStub(service.channel("gateway"))
        for field, value in (("bill_id", "a b"), ("source_id", ""), ("currency", "QQQ")):
            request = bill(20_000)
            setattr(request, field, value)
            assert (await refusal(stub.ImportProviderBill(request, **FINANCE)))[0] is INVALID
        for name, number in (("until_at", 0), ("amount_nanos", -1), ("from_at", -1)):
            request = bill(20_000)
            setattr(request.lines[0], name, number)
            assert (await refusal(stub.ImportProviderBill(request, **FINANCE)))[0] is INVALID
        for day in ("", "yesterday", "2026-13-01"):
            matched = stub.MatchDay(pb.MatchDayRequest(day=day), **FINANCE)
            assert (await refusal(matched))[1] == "DAY"
        for request in (
            pb.GetMarginRequest(by="moon"),
            pb.GetMarginRequest(by="sku", from_at=1, until_at=2),
            pb.GetMarginRequest(by="sku", from_at=DAY_US, until_at=3600),
        ):
            assert (await refusal(stub.GetMargin(request, **FINANCE)))[0] is INVALID

    play(tmp_path, database_url, scenario)


def bill(day: int) -> pb.ImportProviderBillRequest:
    line = events.ProviderBillLine(
        provider_id="vm_9",
        from_at=day * DAY_US,
        until_at=(day + 1) * DAY_US,
        amount_nanos=24 * PRICE,
    )
    return pb.ImportProviderBillRequest(
        bill_id="2026-11", source_id=SOURCE, currency="USD", lines=[line]
    )


def shown(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def rebuilt(url: str) -> bytes:
    store = Store(url, "billing")
    fresh = Billing(store)
    fresh.catch_up()
    store.close()
    return fresh.state()


def play(folder: Path, url: str, scenario: Callable[[Service], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(folder, url) as service:
            await scenario(service)

    asyncio.run(run())
