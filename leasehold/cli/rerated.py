"""A lease's money computed again from the events of its meter. Pure.

The arithmetic is this file's own, not billing's: fractions of what the events say, rounded where
the price says so. A slice costs the difference of two totals, so every event's amount follows
from those before it, and the last total is the price of the lease.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

Event = dict[str, Any]

NANOS = 1_000_000_000
_WITHOUT_MINOR_UNIT = frozenset({"JPY", "KRW"})


def payable(nanos: int, currency: str) -> int:
    """Rounded to what the currency can pay; a half goes to the even one."""
    unit = NANOS if currency in _WITHOUT_MINOR_UNIT else NANOS // 100
    return round(Fraction(nanos, unit)) * unit


class Lease:
    """The terms of a lease and its money, as far as its events were told."""

    def __init__(self, opened: Event) -> None:
        self.opened = opened
        first = {name: opened[name] for name in ("price_nanos", "per_gpu_us")}
        tiers = [{"from_gpu_us": 0, **first}, *opened.get("tiers", [])]
        self._segments = [(0, opened.get("mode", "graduated"), tiers)]
        self._windows: dict[int, tuple[int, Fraction]] = {}
        self.billed_us = 0
        self.money = 0
        self.minimum_charged = 0

    def total(self, until_us: int) -> int:
        """What the lease costs up to there."""
        unit = self.opened.get("granularity_us", 1)
        until_us = -(-until_us // unit) * unit
        ends = [segment[0] for segment in self._segments[1:]] + [until_us]
        return sum(
            round(self._cost(start, min(end, until_us), mode, tiers))
            for (start, mode, tiers), end in zip(self._segments, ends, strict=True)
        )

    def take(self, event: Event) -> str:
        """What is wrong with the next event, or ""."""
        name = event["meta"]["topic"].rpartition(".")[2]
        if name == "slice_recorded":
            return self._slice(event)
        if name == "repriced":
            kept = [one for one in self._segments if one[0] < event["from_us"]]
            self._segments = [*kept, (event["from_us"], event["mode"], event["tiers"])]
            return self._moved(event)
        if name == "reduced":
            factor = Fraction(event["factor_n"], event["factor_d"])
            self._windows[event["from_us"]] = event["until_us"], factor
            return self._moved(event)
        if name == "minimum_charged":
            self.minimum_charged += event["amount_nanos"]
            missing = self.opened["minimum_nanos"] - self.money
            return _differs("the rest of the minimum", missing, event["amount_nanos"])
        if name == "closed":
            whole = self.billed_us * self.opened["gpu_count"]
            return (
                _differs("the billed time", self.billed_us, event["lease_us"])
                or _differs("GPUs × time", whole, event["gpu_us"])
                or _differs("the sum of the slices", self.money, event["amount_nanos"])
            )
        return ""

    def _slice(self, event: Event) -> str:
        if event["from_us"] != self.billed_us:
            return (
                f"a slice begins at {event['from_us']} µs, the last one ended at {self.billed_us}"
            )
        self.billed_us = event["until_us"]
        return self._moved(event)

    def _moved(self, event: Event) -> str:
        amount = self.total(self.billed_us) - self.money
        self.money += event["amount_nanos"]
        return _differs("seconds × price", amount, event["amount_nanos"])

    def _cost(
        self, start_us: int, end_us: int, mode: str, tiers: Sequence[dict[str, int]]
    ) -> Fraction:
        gpus, whole = self.opened["gpu_count"], max(0, end_us - start_us)
        cost = Fraction(0)
        for from_us, until_us, factor in self._stretches(start_us, end_us):
            before, after = gpus * (from_us - start_us), gpus * (until_us - start_us)
            for quantity, tier in _parts(mode, tiers, before, after, gpus * whole):
                cost += factor * quantity * Fraction(tier["price_nanos"], tier["per_gpu_us"])
        return cost

    def _stretches(self, start_us: int, end_us: int) -> Iterator[tuple[int, int, Fraction]]:
        """Time cut where a window begins or ends; where they overlap the lowest counts."""
        edges = {start_us, end_us, *self._windows, *(end for end, _ in self._windows.values())}
        inside = sorted(edge for edge in edges if start_us <= edge <= end_us)
        for from_us, until_us in zip(inside, inside[1:], strict=False):
            factors = [
                factor for begin, (end, factor) in self._windows.items() if begin <= from_us < end
            ]
            yield from_us, until_us, min([Fraction(1), *factors])


def _parts(
    mode: str, tiers: Sequence[dict[str, int]], before: int, after: int, whole: int
) -> Iterator[tuple[int, dict[str, int]]]:
    if mode == "volume":
        yield after - before, [tier for tier in tiers if tier["from_gpu_us"] <= whole][-1]
        return
    ends = [tier["from_gpu_us"] for tier in tiers[1:]] + [after]
    for tier, end in zip(tiers, ends, strict=True):
        quantity = min(after, end) - max(before, tier["from_gpu_us"])
        if quantity > 0:
            yield quantity, tier


def _differs(what: str, computed: int, said: int) -> str:
    return "" if computed == said else f"{what} is {computed}, not {said}"
