"""The price book: every price ever published. A price is never changed, only followed by another.

A price begins when it is published or later, never earlier: what a past second costs is settled.
"""

from __future__ import annotations

from typing import Any

from billing.money import HOUR_US, Rate
from billing.policy import Price, price_in_force
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Invalid, Refused

PRICE_BOOK = "pbk_main"

# Per GPU-hour; keeps the amounts of holds within 64 bits.
HOUR_NANOS_MAX = 10**14


class PastEffective(Refused):
    default_code = "PAST_EFFECTIVE"


class PriceBook(Aggregate):
    TOPIC = "billing.price_book"

    def __init__(self, currency: str) -> None:
        self.currency = currency
        self.version_last = 0
        # By GPU model, in order of publication.
        self.prices: dict[str, list[dict[str, Any]]] = {}

    class Opened(FirstEvent):
        TOPIC = "billing.price_book.opened"
        currency: str

    @classmethod
    def open(cls, currency: str, *, at: int) -> PriceBook:
        return cls._create(cls.Opened, id=PRICE_BOOK, currency=currency, timestamp=at)

    def publish(self, price: Price, *, at: int) -> Price:
        """Publish a price that begins at ``effective_at``, or now if that is 0."""
        effective_at = price.effective_at or at
        if effective_at < at:
            raise PastEffective(f"the price would begin {at - effective_at} us ago")
        if price.currency != self.currency:
            raise Invalid(f"the price book is in {self.currency}", code="CURRENCY_MISMATCH")
        if price.rate.price_nanos < 1 or price.rate.per_gpu_us < 1:
            raise Invalid("a price and its quantity are at least 1", code="PRICE")
        if price.rate.amount(HOUR_US) > HOUR_NANOS_MAX:
            raise Invalid("a price is at most 100000 per GPU-hour", code="PRICE")
        self.trigger_event(
            self.PricePublished,
            gpu_model=price.gpu_model,
            price_nanos=price.rate.price_nanos,
            per_gpu_us=price.rate.per_gpu_us,
            currency=price.currency,
            effective_at=effective_at,
            price_version=self.version_last + 1,
            timestamp=at,
        )
        return self.history(price.gpu_model)[-1]

    class PricePublished(Aggregate.Event):
        TOPIC = "billing.price_book.price_published"
        gpu_model: str
        price_nanos: int
        per_gpu_us: int
        currency: str
        effective_at: int
        price_version: int

        def apply(self, book: PriceBook) -> None:
            book.version_last = self.price_version
            book.prices.setdefault(self.gpu_model, []).append(
                {
                    "price_nanos": self.price_nanos,
                    "per_gpu_us": self.per_gpu_us,
                    "effective_at": self.effective_at,
                    "price_version": self.price_version,
                }
            )

    def price(self, gpu_model: str, at: int) -> Price | None:
        return price_in_force(self.history(gpu_model), at)

    def first_price(self, gpu_model: str) -> Price | None:
        prices = self.history(gpu_model)
        return min(prices, key=lambda price: (price.effective_at, price.version), default=None)

    def history(self, gpu_model: str) -> list[Price]:
        return [
            Price(
                gpu_model,
                Rate(row["price_nanos"], row["per_gpu_us"]),
                self.currency,
                row["effective_at"],
                row["price_version"],
            )
            for row in self.prices.get(gpu_model, [])
        ]
