"""On what terms a lease runs: its SKU, its prices, the time that costs less, and the sum of it.

The sum is a function of the terms and of how far the lease is billed; nothing else goes in.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from billing import rating
from billing.money import Rate
from billing.policy import Market, Sku
from billing.rating import Segment, Window
from billing.shares import WHOLE


@dataclass(frozen=True, slots=True)
class Activation:
    """What placement says about a lease that began."""

    lease_id: str
    tenant_id: str
    correlation_id: str
    workload_id: str
    project: str
    node_id: str
    gpu_model: str
    gpu_count: int
    fencing_token: int
    activated_at: int
    slots: tuple[int, ...] = ()
    form: str = ""
    share: Fraction = WHOLE
    region: str = ""
    market: str = Market.ON_DEMAND
    sla_tier: str = ""

    @property
    def sku(self) -> Sku:
        return Sku(self.gpu_model, self.form, self.share, self.region, self.market)


class Terms:
    """The part of a meter that knows what time costs."""

    gpu_model: str
    gpu_count: int
    price_nanos: int
    per_gpu_us: int
    form: str
    share_n: int
    share_d: int
    region: str
    market: str
    granularity_us: int
    segments: list[dict[str, Any]]
    windows: list[dict[str, Any]]
    billed_us: int
    amount_nanos: int
    topped_up_nanos: int

    @property
    def rate(self) -> Rate:
        return Rate(self.price_nanos, self.per_gpu_us)

    @property
    def sku(self) -> Sku:
        share = Fraction(self.share_n, self.share_d)
        return Sku(self.gpu_model, self.form, share, self.region, self.market)

    @property
    def hold_rate(self) -> Rate:
        """The dearest that the lease can cost from here on, as far as is known."""
        last = self.segments[-1]
        return rating.tariff_of(last["mode"], last["tiers"]).dearest

    @property
    def spent_nanos(self) -> int:
        """What the lease took from its hold."""
        return self.amount_nanos + self.topped_up_nanos

    def priced_segments(self) -> list[Segment]:
        return [
            Segment(
                row["from_us"], row["price_version"], rating.tariff_of(row["mode"], row["tiers"])
            )
            for row in self.segments
        ]

    def priced_windows(self) -> list[Window]:
        return [
            Window(row["from_us"], row["until_us"], Fraction(row["factor_n"], row["factor_d"]))
            for row in self.windows
        ]

    def total_until(self, until_us: int) -> int:
        """What the lease costs if it is billed up to ``until_us``; the minimum stands beside it."""
        if len(self.segments) == 1 and not self.windows and len(self.segments[0]["tiers"]) == 1:
            # Nearly every slice of every lease: one price, asked for without building a tariff.
            (tier,) = self.segments[0]["tiers"]
            charged_us = rating.charged_us(until_us, self.granularity_us)
            return Rate(tier["price_nanos"], tier["per_gpu_us"]).amount(self.gpu_count * charged_us)
        return sum(
            rating.amounts(
                self.priced_segments(),
                self.priced_windows(),
                self.gpu_count,
                rating.charged_us(until_us, self.granularity_us),
            )
        )

    def cost_until(self, until_us: int) -> int:
        """What billing up to ``until_us`` adds; negative if that is before what is billed."""
        return self.total_until(until_us) - self.amount_nanos

    def _with(self, **changed: list[dict[str, Any]]) -> int:
        """What it would add to the money of billed time if the terms were these."""
        before = {name: getattr(self, name) for name in changed}
        vars(self).update(changed)
        try:
            return self.cost_until(self.billed_us)
        finally:
            vars(self).update(before)


def segment_row(
    from_us: int, version: int, mode: str, tiers: list[dict[str, int]]
) -> dict[str, Any]:
    return {"from_us": from_us, "price_version": version, "mode": mode, "tiers": tiers}


def window_row(window: Window) -> dict[str, Any]:
    return {
        "from_us": window.from_us,
        "until_us": window.until_us,
        "factor_n": window.factor.numerator,
        "factor_d": window.factor.denominator,
    }
