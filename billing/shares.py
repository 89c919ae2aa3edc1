"""Shares of one GPU: at no instant do they sum up to more than the whole. Pure.

A claim is the time during which a lease has a share of a slot; one that has not ended reaches to
the end of time. What was claimed is remembered for a while after it ended, so that a claim that
comes late is held against the time it is about.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from chassis.errors import Invalid, Refused

WHOLE = Fraction(1)
PARTS_MAX = 1_000


class SharesOverOne(Refused):
    default_code = "SHARES_OVER_ONE"


@dataclass(frozen=True, slots=True)
class Claim:
    """``until`` 0 means that it has not ended."""

    lease_id: str
    from_: int
    until: int
    share: Fraction

    def holds(self, at: int) -> bool:
        return self.from_ <= at and (not self.until or at < self.until)


def share(n: int, d: int) -> Fraction:
    """A share from its numerator and denominator; neither given means the whole GPU."""
    if n == d == 0:
        return WHOLE
    if not 1 <= n <= d <= PARTS_MAX:
        raise Invalid(f"a share is from 1/{PARTS_MAX} to 1", code="SHARE")
    return Fraction(n, d)


def peak(claims: Iterable[Claim], since: int) -> Fraction:
    """The most that is claimed at any instant from ``since`` on."""
    live = [claim for claim in claims if not claim.until or claim.until > since]
    instants = {since, *(claim.from_ for claim in live if claim.from_ > since)}
    return max(
        sum((claim.share for claim in live if claim.holds(at)), Fraction(0)) for at in instants
    )
