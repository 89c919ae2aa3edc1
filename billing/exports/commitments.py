"""Commitments as the ContractCommitment dataset has them. Pure.

Whether one is active is told as of the end of the chosen range, never as of now: the same range
must give the same file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from billing.exports.calendar import Calendar
from billing.exports.entries import COMMITTED
from billing.exports.rows import Entry
from billing.money import HOUR_US, Rate


@dataclass(frozen=True, slots=True)
class Agreed:
    tenant_id: str
    commitment_id: str
    gpu_model: str
    gpu_count: int
    gpu_hours: int
    cost_nanos: int
    currency: str
    starts_at: int
    ends_at: int
    agreed_at: int
    status: str


def agreed(groups: Iterable[tuple[list[Entry], Calendar]], until_us: int) -> Iterator[Agreed]:
    """Every commitment, by tenant and id, that was agreed before the range ends."""
    for group, _ in groups:
        for entry in group:
            if entry.topic == COMMITTED:
                one = _agreed(entry, until_us)
                if not until_us or one.agreed_at < until_us:
                    yield one


def _agreed(entry: Entry, until_us: int) -> Agreed:
    facts, meta = entry.facts, entry.facts["meta"]
    gpu_us = facts["gpu_count"] * (facts["ends_at"] - facts["starts_at"])
    return Agreed(
        tenant_id=meta["tenant_id"],
        commitment_id=meta["aggregate_id"],
        gpu_model=facts["gpu_model"],
        gpu_count=facts["gpu_count"],
        gpu_hours=gpu_us // HOUR_US,
        cost_nanos=Rate(facts["price_nanos"], facts["per_gpu_us"]).amount(gpu_us),
        currency=facts["currency"],
        starts_at=facts["starts_at"],
        ends_at=facts["ends_at"],
        agreed_at=meta["at"],
        status=_status(facts["starts_at"], facts["ends_at"], until_us or facts["starts_at"]),
    )


def _status(starts_at: int, ends_at: int, at: int) -> str:
    if at < starts_at:
        return "Pending"
    return "Active" if at < ends_at else "Expired"
