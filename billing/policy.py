"""The rules of billing: what a node may claim, how much is held, which price holds. Pure.

The order of the rules in ``verdict`` and of ``MoneyRefusal`` is part of the API: nodes act on
the first, tenants are shown the second.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from billing.money import Rate
from billing.rating import GRADUATED, Tariff, Tier, scaled
from billing.shares import WHOLE
from chassis.clock import SECOND

# An unattached hold lives this long; binding a lease takes seconds.
HOLD_LIFE_US = 300 * SECOND
# A node's report takes a moment to reach placement, so a lease begins a little late there and a
# true slice may end a little ahead of our own time.
AHEAD_US_MAX = 2 * SECOND
# Further ahead may become true soon; even further never was.
AHEAD_RETRY_US_MAX = 300 * SECOND
# A lease that the platform takes back does not pay for the minute that it was cut short in.
PREEMPTED_FREE_US = 60 * SECOND
# Without a word from the node, a lease is billed only so far; its end settles the rest.
UNCONFIRMED_US_MAX = 600 * SECOND


class MoneyRefusal(StrEnum):
    """Why no money was set aside, most fundamental first."""

    NO_ACCOUNT = "NO_ACCOUNT"
    NO_PRICE = "NO_PRICE"
    LAPSED = "LAPSED"
    BALANCE = "BALANCE"
    BUDGET = "BUDGET"


class Verdict(StrEnum):
    """What becomes of a node's slice."""

    RECORD = "RECORD"
    KNOWN = "KNOWN"
    RETRY = "RETRY"
    # Disputed, and not written down: a node must not be able to fill somebody else's history.
    NEVER_ACTIVE = "NEVER_ACTIVE"
    FOREIGN = "FOREIGN"
    CONTRADICTION = "CONTRADICTION"
    # Disputed, and written down.
    FENCED = "FENCED"
    INTERVAL = "INTERVAL"
    AHEAD = "AHEAD"
    BEYOND_END = "BEYOND_END"


DISPUTES = frozenset({Verdict.FENCED, Verdict.INTERVAL, Verdict.AHEAD, Verdict.BEYOND_END})


@dataclass(frozen=True, slots=True)
class Slice:
    """An interval of a lease as its node measured it, from the start of the process."""

    lease_id: str
    fencing_token: int
    boot_id: str
    seq: int
    from_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a lease when a slice of it arrives."""

    node_id: str
    fencing_token: int
    seq: int
    # The end of the last interval that the node reported.
    reported_us: int
    # How long the lease has lasted by the control plane's time; its length once it has ended.
    lasted_us: int
    ended: bool


def verdict(slice_: Slice, known: Known, node_id: str) -> Verdict:
    """The first rule that applies. A slice may be sent again at any time, also after the end."""
    if node_id != known.node_id:
        return Verdict.FOREIGN
    if slice_.fencing_token != known.fencing_token:
        return Verdict.FENCED
    if slice_.seq <= known.seq or slice_.seq < 1:
        repeated = slice_.seq >= 1 and slice_.until_us <= known.reported_us
        return Verdict.KNOWN if repeated else Verdict.CONTRADICTION
    # After the end a hole in the sequence will not be filled: waiting for it would be forever.
    if slice_.seq > known.seq + 1 and not known.ended:
        return Verdict.RETRY
    if not known.reported_us <= slice_.from_us < slice_.until_us:
        return Verdict.INTERVAL
    ahead = slice_.until_us - known.lasted_us
    if known.ended:
        return Verdict.BEYOND_END if ahead > 0 else Verdict.RECORD
    if ahead > AHEAD_RETRY_US_MAX:
        return Verdict.AHEAD
    return Verdict.RETRY if ahead > AHEAD_US_MAX else Verdict.RECORD


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a reported interval, or of the gap before it."""

    from_us: int
    until_us: int
    confirmed: bool
    billed: bool


def pieces(billed_us: int, from_us: int, until_us: int) -> Iterator[Piece]:
    """A report cut where billing stands: what to bill before it, to confirm, and to bill."""
    if until_us <= from_us:
        return
    if billed_us < from_us:
        yield Piece(billed_us, from_us, confirmed=False, billed=False)
    if from_us < billed_us:
        yield Piece(from_us, min(until_us, billed_us), confirmed=True, billed=True)
    if billed_us < until_us:
        yield Piece(max(from_us, billed_us), until_us, confirmed=True, billed=False)


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Money to be set aside for a lease. ``seconds_max`` 0 means without a limit."""

    lease_id: str
    tenant_id: str
    gpu_model: str
    gpu_count: int
    seconds_max: int
    correlation_id: str
    causation_id: str = ""
    project: str = ""
    form: str = ""
    share: Fraction = WHOLE
    region: str = ""
    market: str = "on_demand"

    @property
    def sku(self) -> "Sku":
        return Sku(self.gpu_model, self.form, self.share, self.region, self.market)


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    lease_id: str
    amount_nanos: int
    refusal: MoneyRefusal | None = None
    detail: str = ""


def hold_size(
    rate: Rate, gpu_count: int, seconds_max: int, *, window_us: int, used_us: int = 0
) -> int:
    """What must be held so that the lease can run for a window, or to its limit if nearer."""
    left_us = max(0, seconds_max * SECOND - used_us) if seconds_max else window_us
    return rate.amount(gpu_count * min(window_us, left_us))


@dataclass(frozen=True, slots=True)
class Feed:
    """Money to move into a hold; ``on_credit`` is the part that nothing prepaid covers."""

    delta: int = 0
    on_credit: int = 0
    exhausted: bool = False


def feed(*, held: int, needed: int, target: int, available: int) -> Feed:
    """How a hold pays ``needed`` and stays large enough to pay for a graceful stop.

    It is filled when it would fall under half its target, so that not every slice moves money
    twice; when even all that is available leaves it under that, the lease has to stop.
    """
    left = held - needed
    if left >= 0 and 2 * left >= target:
        return Feed()
    taken = max(0, min(target - left, available))
    left += taken
    on_credit = max(0, -left)
    return Feed(taken + on_credit, on_credit, exhausted=on_credit > 0 or 2 * left < target)


class Market(StrEnum):
    """How capacity is sold. Only a spot price follows what is published while a lease runs."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"


@dataclass(frozen=True, slots=True)
class Sku:
    """What is leased. ``form`` is a MIG profile or a time slice, "" the whole GPU."""

    gpu_model: str
    form: str = ""
    share: Fraction = WHOLE
    region: str = ""
    market: str = Market.ON_DEMAND


@dataclass(frozen=True, slots=True)
class Price:
    """What a SKU costs from ``effective_at`` on; "" as region means wherever none has its own."""

    gpu_model: str
    rate: Rate
    currency: str
    effective_at: int
    version: int = 0
    form: str = ""
    region: str = ""
    market: str = Market.ON_DEMAND
    # Rates after the first, each with the GPU-microseconds of the lease that it begins at.
    tiers: tuple[Tier, ...] = ()
    mode: str = GRADUATED
    minimum_nanos: int = 0
    granularity_us: int = 1

    @property
    def tariff(self) -> Tariff:
        return Tariff((Tier(0, self.rate), *self.tiers), self.mode)

    def of_share(self, share: Fraction) -> "Price":
        tiers = self.tariff.scaled(share).tiers
        return replace(self, rate=scaled(self.rate, share), tiers=tiers[1:])


# What throttled time costs, by SLA tier; without a tier, all of it.
_THROTTLED = {"bronze": Fraction(3, 4), "silver": Fraction(1, 2), "gold": Fraction(1, 4)}


def throttled_factor(sla_tier: str) -> Fraction:
    return _THROTTLED.get(sla_tier, WHOLE)


def price_of(prices: Iterable[Price], sku: Sku, at: int) -> Price | None:
    """The price of a SKU: its form's own, or its share of the whole GPU's; its region's, or any.

    The market is never another one: what is sold as spot has a spot price or none.
    """
    offered = [price for price in prices if price.market == sku.market]
    for form, region in dict.fromkeys(
        [(sku.form, sku.region), (sku.form, ""), ("", sku.region), ("", "")]
    ):
        same = (price for price in offered if (price.form, price.region) == (form, region))
        if found := price_in_force(same, at):
            # A form's own price is for one of it; the whole GPU's is divided.
            return found if form else found.of_share(sku.share)
    return None


def schedule(prices: Iterable[Price], sku: Sku, after: int, until: int) -> list[tuple[int, Price]]:
    """The prices that a running spot lease passes through, each with the time it begins."""
    prices = list(prices)
    edges = sorted({price.effective_at for price in prices if after < price.effective_at <= until})
    passed: list[tuple[int, Price]] = []
    last = price_of(prices, sku, after)
    for edge in edges:
        price = price_of(prices, sku, edge)
        if price is not None and price != last:
            passed.append((edge, price))
            last = price
    return passed


def price_in_force(prices: Iterable[Price], at: int) -> Price | None:
    """The price with the latest beginning that is not after ``at``; of two, the newer version.

    A price never begins in the past, so an answer for a time that has passed stays true.
    """
    begun = [price for price in prices if price.effective_at <= at]
    return max(begun, key=lambda price: (price.effective_at, price.version), default=None)
