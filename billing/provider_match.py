"""The three-way match of one UTC day: what was metered, what was leased, what was billed. Pure.

The order of the rules is part of the API: the most fundamental disagreement is named first. A
match changes nothing; it only says what it found, with the numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from billing.provider_cost import DAY_US, Kind, Machine, Use, shares
from chassis.clock import SECOND

# Providers bill whole minutes; a day may be off by one at each end.
BILLED_US_TOLERANCE = 120 * SECOND
# Nodes and control plane agree to 2 s or 0.1 %, whichever is more.
METERED_US_TOLERANCE = 2 * SECOND


class Outcome(StrEnum):
    MATCHED = "MATCHED"
    ORPHAN = "ORPHAN"
    UNKNOWN_MACHINE = "UNKNOWN_MACHINE"
    PROVIDER_UNBILLED = "PROVIDER_UNBILLED"
    PROVIDER_OVERBILLED = "PROVIDER_OVERBILLED"
    PROVIDER_UNDERBILLED = "PROVIDER_UNDERBILLED"
    PRICE_DIFFERS = "PRICE_DIFFERS"
    LEASED_NOT_METERED = "LEASED_NOT_METERED"
    METERED_NOT_LEASED = "METERED_NOT_LEASED"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDay:
    """One machine on one day, in numbers. ``kind`` "" is a machine we never saw."""

    source_id: str
    provider_id: str
    instance_id: str = ""
    kind: str = ""
    currency: str
    present_us: int = 0
    billed_us: int = 0
    leased_gpu_us: int = 0
    metered_gpu_us: int = 0
    expected_nanos: int = 0
    billed_nanos: int = 0
    accepted_nanos: int = 0
    is_billed: bool = False

    @property
    def difference_nanos(self) -> int:
        return self.billed_nanos - self.expected_nanos

    @property
    def outcome(self) -> Outcome:
        if self.kind == Kind.ORPHAN:
            return Outcome.ORPHAN
        if not self.kind:
            return Outcome.UNKNOWN_MACHINE
        if not self.is_billed:
            return Outcome.PROVIDER_UNBILLED if self.expected_nanos else Outcome.MATCHED
        if self.billed_us > self.present_us + BILLED_US_TOLERANCE:
            return Outcome.PROVIDER_OVERBILLED
        if self.billed_us < self.present_us - BILLED_US_TOLERANCE:
            return Outcome.PROVIDER_UNDERBILLED
        if abs(self.difference_nanos) > self._price_tolerance():
            return Outcome.PRICE_DIFFERS
        return metered_outcome(self.leased_gpu_us, self.metered_gpu_us)

    def _price_tolerance(self) -> int:
        """What the tolerated time costs at the price we know."""
        return self.expected_nanos * BILLED_US_TOLERANCE // max(1, self.present_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDay:
    lease_id: str
    tenant_id: str
    leased_gpu_us: int
    metered_gpu_us: int
    provider_id: str
    provider_cost_nanos: int

    @property
    def outcome(self) -> Outcome:
        return metered_outcome(self.leased_gpu_us, self.metered_gpu_us)


def metered_outcome(leased_gpu_us: int, metered_gpu_us: int) -> Outcome:
    tolerated = max(METERED_US_TOLERANCE, leased_gpu_us // 1000)
    if leased_gpu_us - metered_gpu_us > tolerated:
        return Outcome.LEASED_NOT_METERED
    if metered_gpu_us - leased_gpu_us > tolerated:
        return Outcome.METERED_NOT_LEASED
    return Outcome.MATCHED


def lease_days(
    machine: Machine, uses: Sequence[Use], metered: dict[str, int], day: int, at: int
) -> Iterator[LeaseDay]:
    """The leases on a machine that day; their costs sum up to the day's leased cost."""
    begin, end = (min(moment, at) for moment in (day * DAY_US, (day + 1) * DAY_US))
    before = {use.lease_id: cost for use, cost in shares(machine, uses, begin)}
    for use, cost in shares(machine, uses, end):
        leased = int(use.gpu_us(machine, end) - use.gpu_us(machine, begin))
        if leased or metered.get(use.lease_id):
            yield LeaseDay(
                lease_id=use.lease_id,
                tenant_id=use.tenant_id,
                leased_gpu_us=leased,
                metered_gpu_us=metered.get(use.lease_id, 0),
                provider_id=machine.provider_id,
                provider_cost_nanos=cost - before[use.lease_id],
            )
