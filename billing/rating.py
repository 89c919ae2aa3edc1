"""What the time of a lease costs: tiers, shares, changing prices, degraded time. Pure and exact.

Money is a function of how far a lease is billed, never of how it was cut: a slice costs the
difference of two of its values. It is summed as a fraction and rounded once for each version of
a price, so that no order, repetition or slicing of the same facts can change it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from billing.money import Rate, half_even
from chassis.errors import Invalid

GRADUATED, VOLUME = "graduated", "volume"
MODES = (GRADUATED, VOLUME)
TIERS_MAX = 20


@dataclass(frozen=True, slots=True)
class Tier:
    """A rate that begins at a number of GPU-microseconds of the lease."""

    from_gpu_us: int
    rate: Rate


@dataclass(frozen=True, slots=True)
class Tariff:
    """One version of a price. Graduated: each tier prices its own part. Volume: the tier that
    the whole quantity reaches prices all of it."""

    tiers: tuple[Tier, ...]
    mode: str = GRADUATED

    def parts(self, from_gpu_us: int, until_gpu_us: int, total: int) -> Iterator[tuple[int, Rate]]:
        """The quantities between two readings, each with its rate; ``total`` is the last one."""
        if self.mode == VOLUME:
            yield until_gpu_us - from_gpu_us, self._reached(total).rate
            return
        ends = [tier.from_gpu_us for tier in self.tiers[1:]]
        for tier, end in zip(self.tiers, [*ends, until_gpu_us], strict=True):
            quantity = min(until_gpu_us, end) - max(from_gpu_us, tier.from_gpu_us)
            if quantity > 0:
                yield quantity, tier.rate

    def _reached(self, gpu_us: int) -> Tier:
        return max(
            (tier for tier in self.tiers if tier.from_gpu_us <= gpu_us),
            key=lambda tier: tier.from_gpu_us,
        )

    @property
    def dearest(self) -> Rate:
        return max(
            (tier.rate for tier in self.tiers),
            key=lambda rate: Fraction(rate.price_nanos, rate.per_gpu_us),
        )

    def scaled(self, share: Fraction) -> "Tariff":
        tiers = (Tier(tier.from_gpu_us, scaled(tier.rate, share)) for tier in self.tiers)
        return Tariff(tuple(tiers), self.mode)


def scaled(rate: Rate, share: Fraction) -> Rate:
    """The rate of a share of a GPU, without dividing anything."""
    return Rate(rate.price_nanos * share.numerator, rate.per_gpu_us * share.denominator)


def check(tariff: Tariff) -> None:
    """Refuse tiers that leave a quantity without a rate, or with two."""
    if tariff.mode not in MODES:
        raise Invalid(f"a price is {' or '.join(MODES)}", code="MODE")
    starts = [tier.from_gpu_us for tier in tariff.tiers]
    if starts[0] != 0 or starts != sorted(set(starts)):
        raise Invalid("tiers begin at 0 and each above the one before", code="TIERS")
    if len(starts) > TIERS_MAX:
        raise Invalid(f"a price has at most {TIERS_MAX} tiers", code="TIERS")
    for tier in tariff.tiers:
        if tier.rate.price_nanos < 1 or tier.rate.per_gpu_us < 1:
            raise Invalid("a price and its quantity are at least 1", code="PRICE")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a lease under one version of a price, up to the next one."""

    from_us: int
    version: int
    tariff: Tariff


@dataclass(frozen=True, slots=True)
class Window:
    """Time of a lease that costs only a part of its price."""

    from_us: int
    until_us: int
    factor: Fraction


def charged_us(until_us: int, granularity_us: int) -> int:
    """Time as it is charged: every begun unit of the granularity counts."""
    return -(-until_us // granularity_us) * granularity_us


def amounts(
    segments: Sequence[Segment], windows: Sequence[Window], gpu_count: int, until_us: int
) -> list[int]:
    """What each segment costs when the lease is billed up to ``until_us``."""
    if len(segments) == 1 and not windows and len(segments[0].tariff.tiers) == 1:
        return [segments[0].tariff.tiers[0].rate.amount(gpu_count * until_us)]
    ends = [segment.from_us for segment in segments[1:]] + [until_us]
    return [
        _amount(segment, min(end, until_us), windows, gpu_count)
        for segment, end in zip(segments, ends, strict=True)
    ]


def _amount(segment: Segment, end_us: int, windows: Sequence[Window], gpu_count: int) -> int:
    start_us, exact = segment.from_us, Fraction(0)
    total = gpu_count * max(0, end_us - start_us)
    for from_us, until_us, factor in stretches(start_us, end_us, windows):
        before, after = gpu_count * (from_us - start_us), gpu_count * (until_us - start_us)
        for quantity, rate in segment.tariff.parts(before, after, total):
            exact += factor * Fraction(rate.price_nanos * quantity, rate.per_gpu_us)
    return half_even(exact.numerator, exact.denominator)


def stretches(
    start_us: int, end_us: int, windows: Sequence[Window]
) -> Iterator[tuple[int, int, Fraction]]:
    """Time cut where a window begins or ends; where windows overlap the lowest factor counts."""
    inside = {
        edge
        for window in windows
        for edge in (window.from_us, window.until_us)
        if start_us < edge < end_us
    }
    edges = [start_us, *sorted(inside), end_us]
    for from_us, until_us in zip(edges, edges[1:], strict=False):
        if from_us < until_us:
            yield from_us, until_us, _factor(from_us, windows)


def _factor(at_us: int, windows: Sequence[Window]) -> Fraction:
    factors = [one.factor for one in windows if one.from_us <= at_us < one.until_us]
    return min([Fraction(1), *factors])


# As plain JSON, for events and states.


def tier_rows(tariff: Tariff) -> list[dict[str, Any]]:
    return [
        {
            "from_gpu_us": tier.from_gpu_us,
            "price_nanos": tier.rate.price_nanos,
            "per_gpu_us": tier.rate.per_gpu_us,
        }
        for tier in tariff.tiers
    ]


def tariff_of(mode: str, rows: Sequence[dict[str, Any]]) -> Tariff:
    tiers = (Tier(row["from_gpu_us"], Rate(row["price_nanos"], row["per_gpu_us"])) for row in rows)
    return Tariff(tuple(tiers), mode)
