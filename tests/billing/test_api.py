"""Billing over gRPC: from a sign-up to an invoice, who sees what, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from billing.application import Billing
from billing.money import NANOS
from chassis.store import Store
from leasehold.billing.v1 import billing_service_pb2 as pb
from tests.billing.serving import Service, serving
from tests.billing.world import ACME, H100, LEASE, NODE, SECOND, TOKEN
from tests.calls import as_tenant, refusal
from tests.story.heads import BY_THE_CLOCK
from tests.waiting import wait_for

BOB = {"metadata": as_tenant(ACME, "tenant_admin"), "timeout": 5}
EVE = {"metadata": as_tenant("ten_eve", "tenant_admin"), "timeout": 5}
WAIT = {"timeout": 5}
INVALID, REFUSED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
UNKNOWN = grpc.StatusCode.NOT_FOUND

Scenario = Callable[[Service], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path, database_url: str) -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def with_service() -> None:
            async with serving(tmp_path, database_url) as service:
                await scenario(service)

        asyncio.run(with_service())

    return run


def test_the_story_from_sign_up_to_invoice(play: Any, database_url: str) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        await ran(service, 10 * SECOND)
        cost = H100.amount(10 * SECOND)
        costs = await service.gateway.GetCosts(pb.GetCostsRequest(), **BOB)
        assert (costs.leases[0].amount_nanos, costs.leases[0].metered_us) == (cost, 10 * SECOND)
        assert costs.balance.available_nanos == 10 * NANOS - cost
        issued = await service.gateway.IssueInvoice(pb.IssueInvoiceRequest(), **BOB)
        assert issued.invoice.lines[0].exact_nanos == cost
        assert issued.invoice.total_nanos == 10_000_000
        by_id = pb.GetInvoiceRequest(invoice_id=issued.invoice.invoice_id)
        assert (await service.gateway.GetInvoice(by_id, **BOB)).invoice == issued.invoice
        listed = await service.gateway.ListInvoices(pb.ListInvoicesRequest(), **BOB)
        assert list(listed.invoices) == [issued.invoice]
        assert await service.seen(Billing.state) == rebuilt(database_url)

    play(scenario)


def test_the_postings_are_the_ledger_and_come_in_pages(play: Any) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        await ran(service, 10 * SECOND)
        balances: dict[str, int] = {}
        after, pages = 0, 0
        while pages == 0 or after:
            request = pb.ListPostingsRequest(after=after, page_size=2)
            page = await service.operator.ListPostings(request, **WAIT)
            for entry in page.entries:
                balances[entry.account] = balances.get(entry.account, 0) + entry.amount_nanos
            after, pages = page.next_after, pages + 1
        assert pages > 2
        ledger = await service.seen(lambda billing: dict(billing.ledger.balances["USD"]))
        assert {name: amount for name, amount in balances.items() if amount} == ledger

    play(scenario)


def test_a_tenant_sees_its_own_money_only(play: Any) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        await ran(service, 10 * SECOND)
        issued = await service.gateway.IssueInvoice(pb.IssueInvoiceRequest(), **BOB)
        await service.react("gateway.tenant.signed_up", "ten_eve", "ten_eve", name="Eve")
        by_id = pb.GetInvoiceRequest(invoice_id=issued.invoice.invoice_id)
        calls = service.gateway
        assert (await refusal(calls.GetInvoice(by_id, **EVE)))[0] is UNKNOWN
        for ask, request in (
            (calls.GetBalance, pb.GetBalanceRequest(tenant_id=ACME)),
            (calls.GetCosts, pb.GetCostsRequest(tenant_id=ACME)),
            (calls.IssueInvoice, pb.IssueInvoiceRequest(tenant_id=ACME)),
            (calls.ListInvoices, pb.ListInvoicesRequest(tenant_id=ACME)),
            (calls.ListPostings, pb.ListPostingsRequest(tenant_id=ACME)),
        ):
            assert (await refusal(ask(request, **EVE)))[0] is UNKNOWN
        hers = await calls.ListPostings(pb.ListPostingsRequest(), **EVE)
        assert not hers.entries

    play(scenario)


def test_a_node_reports_its_own_leases_only(play: Any) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        await started(service)
        position = await service.seen(head)
        slices = [pb.Slice(lease_id=LEASE, fencing_token=TOKEN, seq=1, until_us=5 * SECOND)]
        request = pb.RecordSlicesRequest(slices=slices)
        other = await service.node("nod_2").RecordSlices(request, **WAIT)
        assert list(other.outcomes) == [pb.SLICE_OUTCOME_DISPUTED]
        assert await service.seen(head) == position
        own = await service.node(NODE).RecordSlices(request, **WAIT)
        assert list(own.outcomes) == [pb.SLICE_OUTCOME_RECORDED]

    play(scenario)


def test_a_repeated_payment_is_answered_again_and_another_under_its_key_is_not(play: Any) -> None:
    async def scenario(service: Service) -> None:
        await service.react("gateway.tenant.signed_up", ACME, ACME, name="Acme")
        keyed = {"metadata": (("idempotency-key", "pay-1"),), "timeout": 5}
        answers = [await service.operator.TopUp(payment(NANOS), **keyed) for _ in range(3)]
        assert {answer.balance.available_nanos for answer in answers} == {NANOS}
        reused = await refusal(service.operator.TopUp(payment(2 * NANOS), **keyed))
        assert reused[1] == "IDEMPOTENCY_CONFLICT"

    play(scenario)


def test_what_makes_no_sense_is_refused_and_changes_nothing(play: Any) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        position = await service.seen(head)
        hold = {"lease_id": LEASE, "tenant_id": ACME, "gpu_model": "H100", "gpu_count": 1}
        price = {"gpu_model": "H100", "price_nanos": 1, "per_gpu_us": 1, "currency": "USD"}
        top_up, place = service.operator.TopUp, service.admission.PlaceHolds
        for call, request, expected in (
            (top_up, payment(-1), (INVALID, "AMOUNT")),
            (top_up, payment(1, currency="EUR"), (REFUSED, "CURRENCY_MISMATCH")),
            (top_up, payment(1, reference="r" * 201), (INVALID, "REFERENCE")),
            (top_up, payment(1, tenant_id="ten_404"), (UNKNOWN, "ACCOUNT_NOT_FOUND")),
            (place, holds(hold | {"gpu_count": 0}), (INVALID, "GPU_COUNT")),
            (place, holds(hold | {"seconds_max": -1}), (INVALID, "SECONDS_MAX")),
            (place, holds(hold | {"lease_id": "a:b"}), (INVALID, "NAME")),
            (place, holds(*[hold] * 1001), (INVALID, "TOO_MANY")),
            (publish(service), priced(price | {"effective_at": 1}), (REFUSED, "PAST_EFFECTIVE")),
            (publish(service), priced(price | {"currency": "EUR"}), (INVALID, "CURRENCY_MISMATCH")),
            (service.operator.GetBalance, pb.GetBalanceRequest(), (INVALID, "TENANT_ID")),
        ):
            assert await refusal(call(request, **WAIT)) == expected
        written = await asyncio.to_thread(service.billing.log.read, position, 100)
        # The tree of the log may be opened just now: a service begins to work as it begins.
        by_itself = BY_THE_CLOCK | {"billing.log_tree.opened"}
        assert [event.topic for event in written if event.topic not in by_itself] == []

    play(scenario)


def test_holds_answer_one_by_one(play: Any) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        hold = {"tenant_id": ACME, "gpu_model": "H100", "gpu_count": 1, "seconds_max": 60}
        request = holds(
            hold | {"lease_id": "lse_1"},
            hold | {"lease_id": "lse_2", "gpu_count": 100_000},
            hold | {"lease_id": "lse_3", "gpu_model": "B300"},
        )
        answer = await service.admission.PlaceHolds(request, **WAIT)
        assert [result.refusal for result in answer.results] == [
            pb.MONEY_REFUSAL_UNSPECIFIED,
            pb.MONEY_REFUSAL_BALANCE,
            pb.MONEY_REFUSAL_NO_PRICE,
        ]
        assert answer.results[0].amount_nanos == H100.amount(60 * SECOND)
        await service.admission.ReleaseHolds(pb.ReleaseHoldsRequest(lease_ids=["lse_1"]), **WAIT)
        balance = await service.gateway.GetBalance(pb.GetBalanceRequest(), **BOB)
        assert balance.balance.held_nanos == 0

    play(scenario)


@pytest.mark.parametrize("fate", ["placement.lease.lapsed", "placement.lease.bind_refused"])
def test_a_lease_that_is_not_bound_gives_its_money_back(play: Any, fate: str) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        hold = {"lease_id": LEASE, "tenant_id": ACME, "gpu_model": "H100", "gpu_count": 1}
        await service.admission.PlaceHolds(holds(hold), **WAIT)
        await service.react(fate, LEASE, ACME, cause="CAPACITY")
        assert (await service.seen(lambda billing: billing.balance(ACME)))["held"] == 0

    play(scenario)


def test_the_prices_of_the_settings_are_published_at_the_start(play: Any) -> None:
    async def scenario(service: Service) -> None:
        await funded(service)
        listed = await service.gateway.ListPrices(pb.ListPricesRequest(), **BOB)
        assert [(p.gpu_model, p.price_nanos) for p in listed.prices] == [("H100", 2_490_000_000)]
        new = {"gpu_model": "B300", "price_nanos": 5, "per_gpu_us": 7, "currency": "USD"}
        published = await service.operator.PublishPrice(priced(new), **WAIT)
        assert published.price.price_version == 2

    play(scenario)


def test_a_silent_node_is_noticed_by_the_clock(tmp_path: Path, database_url: str) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, database_url, silence_seconds=1, tick_seconds=1) as service:
            await funded(service)
            await started(service)
            costs, what = service.billing.costs, "ten seconds are billed without the node"
            waited = asyncio.to_thread(wait_for, lambda: costs.unconfirmed_us, what=what)
            assert await waited >= 10 * SECOND

    asyncio.run(scenario())


async def funded(service: Service) -> None:
    await service.react("gateway.tenant.signed_up", ACME, ACME, name="Acme", project="research")
    await service.operator.TopUp(payment(10 * NANOS), **WAIT)


async def started(service: Service) -> int:
    """A lease that began ten seconds ago; answers when."""
    common = {"workload_id": "wl_1", "project": "research", "node_id": NODE, "gpu_model": "H100"}
    bound = common | {"slots": [3], "fencing_token": TOKEN, "seconds_max": 0}
    await service.react("placement.lease.bound", LEASE, ACME, **bound)
    began = {"activated_at": service.edge.now() - 10 * SECOND, "gpu_count": 1}
    activated = common | began | {"fencing_token": TOKEN}
    await service.react("placement.lease.activated", LEASE, ACME, **activated)
    return began["activated_at"]


async def ran(service: Service, lease_us: int) -> None:
    activated_at = await started(service)
    cut = pb.Slice(lease_id=LEASE, fencing_token=TOKEN, boot_id="b", seq=1, until_us=lease_us // 2)
    await service.node(NODE).RecordSlices(pb.RecordSlicesRequest(slices=[cut]), **WAIT)
    ended = {"activated_at": activated_at, "ended_at": activated_at + lease_us, "cause": "EXITED"}
    await service.react("placement.lease.ended", LEASE, ACME, **ended)


def payment(amount: int, **more: Any) -> pb.TopUpRequest:
    facts: dict[str, Any] = {"tenant_id": ACME, "amount_nanos": amount, "currency": "USD"}
    return pb.TopUpRequest(**(facts | more))


def holds(*facts: dict[str, Any]) -> pb.PlaceHoldsRequest:
    return pb.PlaceHoldsRequest(holds=[pb.MoneyHoldRequest(**one) for one in facts])


def priced(facts: dict[str, Any]) -> pb.PublishPriceRequest:
    return pb.PublishPriceRequest(price=pb.Price(**facts))


def publish(service: Service) -> Any:
    return service.operator.PublishPrice


def head(billing: Billing) -> int:
    return billing.head.position


def rebuilt(database_url: str) -> bytes:
    store = Store(database_url, "billing")
    fresh = Billing(store)
    fresh.catch_up()
    store.close()
    return fresh.state()
