"""Committed use: which leases a commitment pays for in an hour, and what it costs. Pure.

Commitments are served in order of their ids, leases in order of their start and id; so the same
facts give the same coverage. What the reserved time of a commitment costs telescopes over its
hours: their sum is the price of all of it, rounded once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from billing.money import HOUR_US, Rate, half_even


@dataclass(slots=True)
class Use:
    """What a lease used in an hour, what that cost on demand, and what is not yet covered."""

    lease_id: str
    began: int
    gpu_us: int
    amount_nanos: int
    left_us: int


@dataclass(frozen=True, slots=True)
class Hour:
    used_gpu_us: int
    unused_gpu_us: int
    used_nanos: int
    unused_nanos: int
    covered: list[dict[str, int | str]]

    @property
    def given_back(self) -> int:
        return sum(int(row["amount_nanos"]) for row in self.covered)


def hour_of(at: int) -> int:
    return at - at % HOUR_US


def cover(rate: Rate, gpu_count: int, number: int, uses: Sequence[Use]) -> Hour:
    """Settle the hour with this number of a commitment; takes from ``left_us`` of the uses."""
    reserved = gpu_count * HOUR_US
    left, covered = reserved, []
    for use in sorted(uses, key=lambda one: (one.began, one.lease_id)):
        taken = min(left, use.left_us)
        if taken:
            covered.append(_covered(use, taken))
            use.left_us -= taken
            left -= taken
    total = rate.amount(reserved * (number + 1)) - rate.amount(reserved * number)
    used = half_even(total * (reserved - left), reserved)
    return Hour(reserved - left, left, used, total - used, covered)


def _covered(use: Use, taken: int) -> dict[str, int | str]:
    """Telescopes over the commitments that cover one use: together they give back all of it."""
    before = use.gpu_us - use.left_us
    amount = half_even(use.amount_nanos * (before + taken), use.gpu_us)
    amount -= half_even(use.amount_nanos * before, use.gpu_us)
    return {"lease_id": use.lease_id, "gpu_us": taken, "amount_nanos": amount}
