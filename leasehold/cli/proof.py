"""Whether an invoice is right: every line recomputed from its seconds and its price. Pure.

The arithmetic is this file's own, not billing's: a check that used the code it checks would
agree with its mistakes.
"""

from fractions import Fraction
from typing import Any

NANOS = 1_000_000_000
_WITHOUT_MINOR_UNIT = frozenset({"JPY", "KRW"})
# Lines that are no time of their own: the rest of a minimum, and prices that were put right.
_WITHOUT_TIME = frozenset({"MINIMUM", "CORRECTION"})


def line_fault(line: dict[str, Any], currency: str) -> str:
    """The first thing in a line that does not follow from what stands before it, or ""."""
    lasted = line["ended_at"] - line["activated_at"]
    if lasted * line["gpu_count"] != line["gpu_us"]:
        return f"{lasted} µs × {line['gpu_count']} GPUs are not {line['gpu_us']} GPU-µs"
    before = line.get("offset_us", 0) * line["gpu_count"]
    until, since = (_cost(line, gpu_us) for gpu_us in (before + line["gpu_us"], before))
    exact = until - since
    if not lasted and line.get("charge") in _WITHOUT_TIME:
        exact = int(line["exact_nanos"])
    if exact != int(line["exact_nanos"]):
        return f"seconds × price is {exact} nano-units, not {line['exact_nanos']}"
    unit = NANOS if currency in _WITHOUT_MINOR_UNIT else NANOS // 100
    payable = round(Fraction(exact, unit)) * unit
    if payable != int(line["amount_nanos"]):
        return f"{exact} nano-units are {payable} when rounded once, not {line['amount_nanos']}"
    return ""


def _cost(line: dict[str, Any], gpu_us: int) -> int:
    """What a lease costs from its beginning; a line is the difference of two."""
    return round(Fraction(gpu_us * int(line["price_nanos"]), line["per_gpu_us"]))


def faults(invoice: dict[str, Any]) -> list[str]:
    """Everything wrong with an invoice, one sentence each; empty if it is right."""
    found = [
        f"line {line['line']}: {fault}"
        for line in invoice["lines"]
        if (fault := line_fault(line, invoice["currency"]))
    ]
    total = sum(
        int(line["amount_nanos"]) + int(line.get("tax_nanos", 0)) for line in invoice["lines"]
    )
    if total != int(invoice["total_nanos"]):
        found.append(f"the lines sum up to {total} nano-units, not {invoice['total_nanos']}")
    leases = [
        (line["lease_id"], line.get("offset_us", 0), line.get("charge"))
        for line in invoice["lines"]
    ]
    if len(set(leases)) < len(leases):
        found.append("time of a lease stands on it twice")
    return found
