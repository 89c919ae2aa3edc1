"""What stands on an invoice: how much of each lease, cut at the edges of periods. Pure.

A line takes a lease's money from where its last line ended. So the lines of a lease sum up to its
money, wherever it was cut; each is rounded once. Time of a period that has closed stands as a
correction, with the time it belongs to; time that was taken back stands with negative money.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from billing.domain.meter import Meter
from billing.money import payable

Line = dict[str, Any]

USAGE, CORRECTION, MINIMUM = "USAGE", "CORRECTION", "MINIMUM"


@dataclass(frozen=True, slots=True)
class Invoiced:
    """How far a lease stands on invoices: its time, its exact money, and as rounded."""

    until_us: int = 0
    exact_nanos: int = 0
    amount_nanos: int = 0


def cuts(from_us: int, until_us: int, edges: Sequence[int]) -> list[int]:
    """From one time of a lease to another, forth or back, stopping at every edge between."""
    low, high = sorted((from_us, until_us))
    between = sorted({edge for edge in edges if low < edge < high}, reverse=until_us < from_us)
    return [from_us, *between, until_us]


def lines_of(meter: Meter, before: Invoiced, until_us: int, edges: Sequence[int]) -> list[Line]:
    """The lines of a lease up to ``until_us``; ``edges`` are the ends of closed periods."""
    own = [edge - meter.activated_at for edge in edges]
    closed_us = max(own, default=-1)
    found = []
    if change := changed(meter, before):
        found.append(_line(meter, before.until_us, before.until_us, change, CORRECTION))
    if until_us != before.until_us or meter.closed and not found:
        for start, end in pairwise(cuts(before.until_us, until_us, own)):
            kind = CORRECTION if end < start or end <= closed_us else USAGE
            exact = meter.total_until(end) - meter.total_until(start)
            found.append(_line(meter, start, end, exact, kind))
    if meter.topped_up_nanos and settled(meter, until_us):
        found.append(_line(meter, until_us, until_us, meter.topped_up_nanos, MINIMUM))
    return found


def changed(meter: Meter, before: Invoiced) -> int:
    """By how much the money of time that is invoiced has changed since."""
    return meter.total_until(before.until_us) - before.exact_nanos


def settled(meter: Meter, until_us: int) -> bool:
    """Whether a lease that is invoiced up to there needs no further line."""
    return meter.closed and until_us == meter.billed_us


def _line(meter: Meter, from_us: int, until_us: int, exact_nanos: int, kind: str) -> Line:
    return {
        "lease_id": meter.lease_id,
        "workload_id": meter.workload_id,
        "project": meter.project,
        "gpu_model": meter.gpu_model,
        "gpu_count": meter.gpu_count,
        "activated_at": meter.activated_at + from_us,
        "ended_at": meter.activated_at + until_us,
        "gpu_us": meter.gpu_count * (until_us - from_us),
        "price_nanos": meter.price_nanos,
        "per_gpu_us": meter.per_gpu_us,
        "exact_nanos": exact_nanos,
        "amount_nanos": payable(exact_nanos, meter.currency),
        "offset_us": from_us,
        "charge": kind,
    }


def numbered(lines: Sequence[Line]) -> list[Line]:
    """In an order that does not depend on how the facts came."""
    ordered = sorted(lines, key=lambda row: (row["activated_at"], row["lease_id"]))
    return [{"line": number, **row} for number, row in enumerate(ordered, 1)]


TaxRule = Callable[[Line, str], int]


def untaxed(line: Line, currency: str) -> int:
    """The tax of a line, payable; the default is none."""
    return 0
