"""Exact money: integer nano-units, rational rates, and one rounding for each purpose. Pure.

A slice is never rounded by itself. It costs the difference of two rounded totals, so that the
sum of a lease's slices does not depend on how the lease was sliced.
"""

from dataclasses import dataclass
from decimal import Decimal

from chassis.errors import Invalid

NANOS = 1_000_000_000
HOUR_US = 3_600_000_000

# Decimal places of the currencies that can be invoiced.
_PLACES = {"CHF": 2, "EUR": 2, "GBP": 2, "JPY": 0, "KRW": 0, "SEK": 2, "USD": 2}


@dataclass(frozen=True, slots=True)
class Rate:
    """``price_nanos`` for ``per_gpu_us`` GPU-microseconds; never divided in advance."""

    price_nanos: int
    per_gpu_us: int

    def amount(self, gpu_us: int) -> int:
        """What the first ``gpu_us`` of a lease cost; a slice costs the difference of two."""
        return half_even(self.price_nanos * gpu_us, self.per_gpu_us)


def half_even(numerator: int, denominator: int) -> int:
    """The nearest integer to a fraction; a half goes to the even one."""
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    if twice > denominator or (twice == denominator and quotient % 2):
        quotient += 1
    return quotient


def shown(amount_nanos: int, currency: str) -> str:
    """``415000000`` as ``0.415 USD``, for people: exact, with at least two places."""
    whole, fraction = divmod(abs(amount_nanos), NANOS)
    places = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount_nanos < 0 else ''}{whole}.{places} {currency}"


def payable(amount_nanos: int, currency: str) -> int:
    """Rounded to what the currency can pay; the rest is the caller's to post."""
    unit = minor_unit(currency)
    return half_even(amount_nanos, unit) * unit


def minor_unit(currency: str) -> int:
    """Smallest payable amount, in nano-units."""
    if currency not in _PLACES:
        raise Invalid(f"{currency!r} is no currency of this ledger", code="CURRENCY")
    return int(NANOS // 10 ** _PLACES[currency])


def per_hour(price: Decimal) -> Rate:
    """The rate of a price for one GPU and one hour."""
    nanos = price * NANOS
    if nanos != int(nanos) or nanos <= 0:
        raise Invalid(f"{price} is not a positive price with at most 9 decimals", code="PRICE")
    return Rate(int(nanos), HOUR_US)
