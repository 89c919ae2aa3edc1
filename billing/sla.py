"""What is owed for time in which a lease was not what it should have been. Pure.

Availability is the share of a line's time that lies outside every window; the tier's schedule says
what part of the line is given back below which availability.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from billing.money import minor_unit

Windows = list[dict[str, Any]]

# By tier: below such an availability, such a part; the strictest that applies.
_SCHEDULES: dict[str, tuple[tuple[Fraction, Fraction], ...]] = {
    "bronze": ((Fraction(95, 100), Fraction(10, 100)),),
    "silver": (
        (Fraction(99, 100), Fraction(10, 100)),
        (Fraction(95, 100), Fraction(25, 100)),
    ),
    "gold": (
        (Fraction(999, 1000), Fraction(10, 100)),
        (Fraction(99, 100), Fraction(25, 100)),
        (Fraction(95, 100), Fraction(50, 100)),
    ),
}


def within(windows: Iterable[dict[str, Any]], starts_at: int, ends_at: int) -> Windows:
    """The windows as far as they lie in an interval; one that is open lasts to its end."""
    found = []
    for window in windows:
        start, end = max(window["starts_at"], starts_at), min(window["ends_at"] or ends_at, ends_at)
        if start < end:
            found.append(window | {"starts_at": start, "ends_at": end})
    return sorted(found, key=lambda window: window["starts_at"])


def owed(line: dict[str, Any], windows: Windows, tier: str, currency: str) -> int:
    """What of a line is given back, rounded down to what can be paid."""
    lasted = line["ended_at"] - line["activated_at"]
    if lasted <= 0 or not windows:
        return 0
    lost = sum(window["ends_at"] - window["starts_at"] for window in windows)
    availability = 1 - Fraction(min(lost, lasted), lasted)
    parts = [part for below, part in _SCHEDULES.get(tier, ()) if availability < below]
    amount = max(parts, default=Fraction(0)) * max(0, line["amount_nanos"])
    unit = minor_unit(currency)
    return amount // unit * unit
