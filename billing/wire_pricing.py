"""Protobuf to price books and back. Pure."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from billing import wire
from billing.domain.price_book import check
from billing.money import Rate
from billing.policy import Price
from billing.what_if import Difference
from chassis.errors import Invalid
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import pricing_service_pb2 as pb

PRICES_MAX = 1_000


def prices(messages: Iterable[billing_pb.Price]) -> list[Price]:
    found = [wire.price(message) for message in messages]
    if not 1 <= len(found) <= PRICES_MAX:
        raise Invalid(f"a price book has from 1 to {PRICES_MAX} prices", code="TOO_MANY")
    for price in found:
        check(price)
    return found


def period(request: pb.CompareBookRequest) -> tuple[int, int]:
    since, until = getattr(request, "from"), request.until
    if not 0 <= since < until:
        raise Invalid("a period ends after it begins", code="PERIOD")
    return since, until


def terms(message: pb.Commitment) -> dict[str, Any]:
    return {
        "commitment_id": wire.name(message.commitment_id, "commitment_id"),
        "tenant_id": wire.name(message.tenant_id, "tenant_id"),
        "gpu_model": wire.name(message.gpu_model, "gpu_model"),
        "gpu_count": message.gpu_count,
        "rate": Rate(message.price_nanos, message.per_gpu_us),
        "term": (message.starts_at, message.ends_at),
    }


def payment(request: pb.ExchangePaymentRequest) -> dict[str, Any]:
    return {
        "amount_nanos": request.amount_nanos,
        "currency": request.currency,
        "rate": (request.rate_n, request.rate_d),
        "source": wire.reference(request.source),
        "quoted_at": request.quoted_at,
        "reference": wire.reference(request.reference),
    }


def published(prices: Iterable[Price]) -> pb.PublishPricesResponse:
    return pb.PublishPricesResponse(prices=[wire.price_message(price) for price in prices])


def differences(rows: Iterable[Difference], position: int) -> pb.CompareBookResponse:
    return pb.CompareBookResponse(
        tenants=[
            pb.TenantDifference(**asdict(row), difference_nanos=row.other_nanos - row.actual_nanos)
            for row in rows
        ],
        position=position,
    )
