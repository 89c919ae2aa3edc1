"""Price books as documents: publishing one, and what the past would have cost under one.

Money is text in them, decimal and for one GPU and one hour; a JSON number is refused.
"""

import re
from typing import Any

from pydantic import Field

from chassis.errors import Invalid
from gateway.http import bodies
from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.intents import MODEL
from gateway.http.operations import Ask, Operation, asking
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import ledger_events_pb2 as events_pb
from leasehold.billing.v1 import pricing_service_pb2 as pb

_HOUR_US = 3_600_000_000
_SECOND_US = 1_000_000
_NAME = r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,127})?$"
_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([0-9]{1,9}))?", re.ASCII)


def nanos_given(field: str, text: str) -> int:
    match = _DECIMAL.fullmatch(text)
    found = int(match[1]) * 10**9 + int((match[2] or "").ljust(9, "0")) if match else 0
    if not found:
        raise Invalid(
            f'{field} must be a decimal number above 0, such as "2.49"', code="AMOUNT", field=field
        )
    return found


class TierRow(Body):
    from_gpu_hours: int = Field(gt=0, lt=2**31)
    price: str

    def message(self) -> events_pb.PriceTier:
        return events_pb.PriceTier(
            from_gpu_us=self.from_gpu_hours * _HOUR_US,
            price_nanos=nanos_given("price", self.price),
            per_gpu_us=_HOUR_US,
        )


class PriceRow(Body):
    gpu_model: str = Field(pattern=MODEL)
    price: str
    form: str = Field(default="", pattern=_NAME)
    region: str = Field(default="", pattern=_NAME)
    market: str = "on_demand"
    mode: str = "graduated"
    tiers: list[dict[str, Any]] = Field(default=[], max_length=20)
    minimum: str = ""
    granularity_seconds: int = Field(default=0, ge=0, le=3_600)
    effective_at: int = Field(default=0, ge=0, lt=2**63)

    def message(self, currency: str) -> billing_pb.Price:
        return billing_pb.Price(
            gpu_model=self.gpu_model,
            price_nanos=nanos_given("price", self.price),
            per_gpu_us=_HOUR_US,
            currency=currency,
            effective_at=self.effective_at,
            form=self.form,
            region=self.region,
            market=self.market,
            mode=self.mode,
            tiers=[bodies.read(TierRow, row).message() for row in self.tiers],
            minimum_nanos=nanos_given("minimum", self.minimum) if self.minimum else 0,
            granularity_us=self.granularity_seconds * _SECOND_US,
        )


class Book(Body):
    """A price book: what each SKU costs, for one GPU and one hour."""

    currency: str = Field(pattern="^[A-Z]{3}$")
    prices: list[dict[str, Any]] = Field(min_length=1, max_length=1_000)

    def messages(self) -> list[billing_pb.Price]:
        return [bodies.read(PriceRow, row).message(self.currency) for row in self.prices]


class Comparison(Book):
    """A price book and a period of the past in microseconds, half-open."""

    since: int = Field(alias="from", ge=0, lt=2**63)
    until: int = Field(gt=0, lt=2**63)
    tenant: str = ""


def _comparison(ask: Ask) -> pb.CompareBookRequest:
    body = ask.body
    period = {"from": body.since, "until": body.until}
    return pb.CompareBookRequest(prices=body.messages(), tenant_id=body.tenant, **period)


def operations() -> tuple[Operation, ...]:
    return (
        asking(
            "POST",
            "/v1/price-books",
            "Publishes every price of a price book, or none.",
            rpc("billing", "PublishPrices"),
            lambda ask: pb.PublishPricesRequest(prices=ask.body.messages()),
            status=201,
            body=Book,
        ),
        asking(
            "POST",
            "/v1/price-books/what-if",
            "Shows what a past period would have cost under other prices.",
            rpc("billing", "CompareBook"),
            _comparison,
            body=Comparison,
        ),
    )
