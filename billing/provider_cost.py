"""What a machine of a provider costs, and which part of that leases used. Pure.

Everything is a function of facts up to a moment: cost is price × time rounded once, the leased
part likewise, the rest is idle. So the parts sum up to the whole at every moment, and it does not
matter when or how often they are asked for, nor in which order leases were heard of.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from billing.money import HOUR_US, half_even

DAY_US = 24 * HOUR_US


class Kind(StrEnum):
    INSTANCE = "INSTANCE"
    ORPHAN = "ORPHAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine at a provider; ``ended_at`` 0 means that it is still there."""

    kind: str
    source_id: str
    instance_id: str
    provider_id: str
    sku: str
    gpu_count: int
    price_nanos_per_hour: int
    currency: str
    started_at: int
    ended_at: int = 0

    def present_us(self, until_at: int) -> int:
        """How long it has been there at a moment."""
        end = min(until_at, self.ended_at) if self.ended_at else until_at
        return max(0, end - self.started_at)

    def cost(self, until_at: int) -> int:
        return half_even(self.price_nanos_per_hour * self.present_us(until_at), HOUR_US)


@dataclass(frozen=True, slots=True)
class Use:
    """A lease on a machine; ``until_at`` 0 means that it runs. ``share`` is of each GPU."""

    lease_id: str
    tenant_id: str
    gpu_count: int
    from_at: int
    until_at: int
    share_n: int = 1
    share_d: int = 1

    def gpu_us(self, machine: Machine, at: int) -> Fraction:
        """GPU-microseconds on the machine up to a moment, while the machine was there."""
        end = min(self.until_at or at, at, machine.started_at + machine.present_us(at))
        lasted = max(0, end - max(self.from_at, machine.started_at))
        return Fraction(self.gpu_count * self.share_n * lasted, self.share_d)


@dataclass(frozen=True, slots=True)
class Split:
    """The cost of a machine from its beginning."""

    leased_gpu_us: int = 0
    leased: int = 0
    idle: int = 0
    leak: int = 0

    @property
    def total(self) -> int:
        return self.leased + self.idle + self.leak


def split(machine: Machine, uses: Sequence[Use], at: int) -> Split:
    total = machine.cost(at)
    if machine.kind == Kind.ORPHAN:
        return Split(leak=total)
    used = sum((use.gpu_us(machine, at) for use in uses), Fraction())
    leased = _leased(machine, uses, used, at)
    return Split(int(used), leased, total - leased)


def shares(machine: Machine, uses: Sequence[Use], at: int) -> Iterator[tuple[Use, int]]:
    """What each lease used of the machine; the sum is exactly the leased part of ``split``."""
    used, before = Fraction(), 0
    for use in sorted(uses, key=lambda use: (use.from_at, use.lease_id)):
        used += use.gpu_us(machine, at)
        cost = _leased(machine, uses, used, at)
        yield use, cost - before
        before = cost


def _leased(machine: Machine, uses: Iterable[Use], used_gpu_us: Fraction, at: int) -> int:
    gpus = machine.gpu_count or max((use.gpu_count for use in uses), default=1)
    # More cannot be used than there is; what leases claim beyond it is their nodes' dispute.
    used = min(used_gpu_us, Fraction(gpus * machine.present_us(at)))
    price = machine.price_nanos_per_hour
    return half_even(price * used.numerator, gpus * HOUR_US * used.denominator)


def spread(amount: int, from_at: int, until_at: int, step_us: int) -> Iterator[tuple[int, int]]:
    """An amount over the steps (hours, days) that an interval touches: (step number, part)."""
    low, high = min(from_at, until_at), max(from_at, until_at)
    if low // step_us == max(low, high - 1) // step_us:
        yield low // step_us, amount
        return
    before = 0
    for step in range(low // step_us, (high - 1) // step_us + 1):
        edge = min(high, (step + 1) * step_us)
        so_far = half_even(amount * (edge - low), high - low)
        yield step, so_far - before
        before = so_far
