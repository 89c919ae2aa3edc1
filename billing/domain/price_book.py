"""The price book: every price ever published. A price is never changed, only followed by another.

A price begins when it is published or later, never earlier: what a past second costs is settled.
"""

from __future__ import annotations

from typing import Any

from billing import rating
from billing.money import HOUR_US, Rate
from billing.policy import Market, Price, Sku, price_of, schedule
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
        check(price)
        self.trigger_event(
            self.PricePublished,
            gpu_model=price.gpu_model,
            price_nanos=price.rate.price_nanos,
            per_gpu_us=price.rate.per_gpu_us,
            currency=price.currency,
            effective_at=effective_at,
            price_version=self.version_last + 1,
            form=price.form,
            region=price.region,
            market=str(price.market),
            mode=price.mode,
            tiers=rating.tier_rows(price.tariff)[1:],
            minimum_nanos=price.minimum_nanos,
            granularity_us=price.granularity_us,
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
        form: str = ""
        region: str = ""
        market: str = Market.ON_DEMAND.value
        mode: str = rating.GRADUATED
        tiers: list[dict[str, int]] | None = None
        minimum_nanos: int = 0
        granularity_us: int = 1

        def apply(self, book: PriceBook) -> None:
            book.version_last = self.price_version
            row = {name: getattr(self, name) for name in _ROW} | {"tiers": self.tiers or []}
            book.prices.setdefault(self.gpu_model, []).append(row)

    def price(self, sku: Sku, at: int) -> Price | None:
        return price_of(self.history(sku.gpu_model), sku, at)

    def first_price(self, sku: Sku) -> Price | None:
        """The price that a SKU had first: for a time before there was any."""
        starts = sorted(price.effective_at for price in self.history(sku.gpu_model))
        found = (self.price(sku, start) for start in starts)
        return next((price for price in found if price is not None), None)

    def schedule(self, sku: Sku, after: int, until: int) -> list[tuple[int, Price]]:
        return schedule(self.history(sku.gpu_model), sku, after, until)

    def history(self, gpu_model: str) -> list[Price]:
        return [price_row(gpu_model, self.currency, row) for row in self.prices.get(gpu_model, [])]


_ROW = (
    "price_nanos", "per_gpu_us", "effective_at", "price_version", "form", "region", "market",
    "mode", "minimum_nanos", "granularity_us",
)  # fmt: skip


def price_row(gpu_model: str, currency: str, row: dict[str, Any]) -> Price:
    return Price(
        gpu_model,
        Rate(row["price_nanos"], row["per_gpu_us"]),
        currency,
        row["effective_at"],
        row["price_version"],
        row["form"],
        row["region"],
        row["market"],
        rating.tariff_of(row["mode"], row["tiers"]).tiers,
        row["mode"],
        row["minimum_nanos"],
        row["granularity_us"],
    )


def check(price: Price) -> None:
    """Refuse a price that makes no sense at any time."""
    for amount in (price.minimum_nanos, price.granularity_us, *numbers(price)):
        if type(amount) is not int:
            raise Invalid(f"{amount!r} is not an integer of nano-units", code="MONEY")
    rating.check(price.tariff)
    if price.tariff.dearest.amount(HOUR_US) > HOUR_NANOS_MAX:
        raise Invalid("a price is at most 100000 per GPU-hour", code="PRICE")
    if price.market not in set(Market):
        raise Invalid(f"a market is one of {', '.join(Market)}", code="MARKET")
    if not 0 <= price.minimum_nanos <= HOUR_NANOS_MAX:
        raise Invalid("a minimum charge is from 0 to 100000", code="MINIMUM")
    if not 1 <= price.granularity_us <= HOUR_US:
        raise Invalid("a granularity is from 1 us to 1 h", code="GRANULARITY")


def numbers(price: Price) -> list[int]:
    tiers = price.tariff.tiers
    return [
        number
        for tier in tiers
        for number in (tier.from_gpu_us, tier.rate.price_nanos, tier.rate.per_gpu_us)
    ]
