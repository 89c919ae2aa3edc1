"""Prices, commitments and exchanges over gRPC."""

import asyncio
import copy
from pathlib import Path
from typing import Any

import grpc

from billing.application import Billing
from billing.money import HOUR_US, NANOS, Rate
from chassis.store import Store
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import pricing_service_pb2 as pb
from tests.billing.serving import serving
from tests.billing.test_api import (
    INVALID,
    REFUSED,
    WAIT,
    Service,
    funded,
    ran,
    refusal,
)
from tests.billing.world import ACME, H100, SECOND


def sold(price_nanos: int, **more: Any) -> billing_pb.Price:
    facts = {"gpu_model": "H100", "per_gpu_us": HOUR_US, "currency": "USD"}
    return billing_pb.Price(price_nanos=price_nanos, **facts | more)


def money(billing: Billing) -> tuple[Any, Any]:
    return copy.deepcopy((billing.ledger.state(), billing.costs.state()))


def prices(billing: Billing) -> int:
    return len(billing.prices.published)


def state_at(billing: Billing) -> tuple[bytes, int]:
    """The clock may add to the log at any time, so a state is compared with its position."""
    return billing.state(), billing.head.position


def rebuilt(database_url: str, position: int) -> bytes:
    store = Store(database_url, "billing")
    fresh = Billing(store)
    fresh.catch_up(until=position)
    store.close()
    return fresh.state()


def compared(*prices: billing_pb.Price, until: int = 2**62) -> pb.CompareBookRequest:
    return pb.CompareBookRequest(prices=prices, until=until)


def test_the_past_under_another_book(tmp_path: Path, database_url: str) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, database_url) as service:
            await funded(service)
            await ran(service, 10 * SECOND)
            before = await service.seen(money)
            answer = await service.pricing.CompareBook(compared(sold(2 * NANOS)), **WAIT)
            (row,) = answer.tenants
            assert (row.tenant_id, row.leases) == (ACME, 1)
            assert row.actual_nanos == H100.amount(10 * SECOND)
            assert row.other_nanos == Rate(2 * NANOS, HOUR_US).amount(10 * SECOND)
            assert row.difference_nanos == row.other_nanos - row.actual_nanos
            assert await service.seen(money) == before
            await what_makes_no_sense(service)

    asyncio.run(scenario())


async def what_makes_no_sense(service: Service) -> None:
    before = await service.seen(prices)
    for call, request, expected in (
        (service.pricing.CompareBook, compared(), (INVALID, "TOO_MANY")),
        (service.pricing.CompareBook, compared(sold(1), until=0), (INVALID, "PERIOD")),
        (service.pricing.CompareBook, compared(sold(-1)), (INVALID, "PRICE")),
        (
            service.pricing.PublishPrices,
            pb.PublishPricesRequest(prices=[sold(1), sold(1, effective_at=1)]),
            (REFUSED, "PAST_EFFECTIVE"),
        ),
    ):
        assert await refusal(call(request, **WAIT)) == expected
    assert await service.seen(prices) == before, "a book is published whole or not at all"


def test_a_book_a_commitment_and_euros(tmp_path: Path, database_url: str) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, database_url) as service:
            await funded(service)
            tier = {"from_gpu_us": HOUR_US, "price_nanos": 1, "per_gpu_us": 1}
            book = [sold(7, market="spot", tiers=[tier]), sold(9, form="1g.10gb", region="eu")]
            published = await service.pricing.PublishPrices(
                pb.PublishPricesRequest(prices=book), **WAIT
            )
            listed = await service.operator.ListPrices(billing_pb.ListPricesRequest(), **WAIT)
            assert list(listed.prices)[1:] == list(published.prices)
            assert listed.prices[1].tiers[0].from_gpu_us == HOUR_US
            await committed(service)
            await exchanged(service)
            state, position = await service.seen(state_at)
            assert state == rebuilt(database_url, position)

    asyncio.run(scenario())


async def committed(service: Service) -> None:
    starts_at = (service.edge.now() // HOUR_US + 1) * HOUR_US
    terms = pb.Commitment(
        commitment_id="cmt_1",
        tenant_id=ACME,
        gpu_model="H100",
        gpu_count=2,
        price_nanos=NANOS,
        per_gpu_us=HOUR_US,
        starts_at=starts_at,
        ends_at=starts_at + HOUR_US,
    )
    request = pb.OpenCommitmentRequest(commitment=terms)
    await service.pricing.OpenCommitment(request, **WAIT)
    listed = await service.pricing.ListCommitments(pb.ListCommitmentsRequest(), **WAIT)
    (found,) = listed.commitments
    assert (found.commitment_id, found.settled_until) == ("cmt_1", starts_at)
    request.commitment.gpu_count = 0
    request.commitment.commitment_id = "cmt_2"
    assert await refusal(service.pricing.OpenCommitment(request, **WAIT)) == (INVALID, "GPU_COUNT")


async def exchanged(service: Service) -> None:
    payment = pb.ExchangePaymentRequest(
        tenant_id=ACME,
        amount_nanos=NANOS,
        currency="EUR",
        rate_n=11,
        rate_d=10,
        source="ECB",
        quoted_at=service.edge.now(),
        reference="pay_1",
    )
    answer = await service.pricing.ExchangePayment(payment, **WAIT)
    assert answer.credited_nanos == 1_100_000_000
    payment.amount_nanos = 2 * NANOS
    code = (grpc.StatusCode.FAILED_PRECONDITION, "REFERENCE_REUSED")
    assert await refusal(service.pricing.ExchangePayment(payment, **WAIT)) == code
