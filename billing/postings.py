"""Double entry: the chart of accounts, and the postings of everything that moves money. Pure.

A positive amount debits, a negative one credits. What we own is therefore a positive balance;
what we owe (prepaid, held) and what we earned are negative ones. Every list made here sums to
zero: ``balanced`` refuses anything else, and nothing but it makes postings.

Prepaid and held money never go below zero. Only an account's own events touch prepaid and the
receivable; only a meter's touch income; a hold is where they meet.
"""

from typing import Any

from chassis.errors import Invalid

Posting = dict[str, Any]

CASH = "asset:cash"


class Unbalanced(Invalid):
    """Money would appear or vanish."""

    default_code = "UNBALANCED"


def receivable(tenant_id: str) -> str:
    return f"asset:receivable:{tenant_id}"


def prepaid(tenant_id: str) -> str:
    return f"liability:prepaid:{tenant_id}"


def hold(tenant_id: str, lease_id: str) -> str:
    return f"liability:hold:{tenant_id}:{lease_id}"


def income(gpu_model: str) -> str:
    return f"income:gpu:{gpu_model}"


def rounding(currency: str) -> str:
    return f"equity:rounding:{currency}"


def balanced(*entries: tuple[str, int]) -> list[Posting]:
    """Entries as postings, without those of nothing; refused unless they sum to zero."""
    for account, amount in entries:
        if type(amount) is not int:
            raise Invalid(f"{amount!r} on {account} is not an integer of nano-units", code="MONEY")
    if total := sum(amount for _, amount in entries):
        raise Unbalanced(f"the postings sum to {total}, not to zero")
    return [{"account": name, "amount_nanos": amount} for name, amount in entries if amount]


def top_up(tenant_id: str, amount: int, *, owed: int) -> list[Posting]:
    settled = min(amount, owed)
    return balanced(
        (CASH, amount),
        (receivable(tenant_id), -settled),
        (prepaid(tenant_id), settled - amount),
    )


def feed_hold(tenant_id: str, lease_id: str, delta: int, *, on_credit: int) -> list[Posting]:
    """Into a lease's hold, from prepaid but for the part that prepaid did not cover."""
    return balanced(
        (prepaid(tenant_id), delta - on_credit),
        (receivable(tenant_id), on_credit),
        (hold(tenant_id, lease_id), -delta),
    )


def release_hold(tenant_id: str, lease_id: str, amount: int, *, owed: int) -> list[Posting]:
    settled = min(amount, owed)
    return balanced(
        (hold(tenant_id, lease_id), amount),
        (receivable(tenant_id), -settled),
        (prepaid(tenant_id), settled - amount),
    )


def charge(tenant_id: str, lease_id: str, gpu_model: str, amount: int) -> list[Posting]:
    """A slice, from the lease's hold to income; a correction goes the other way."""
    return balanced((hold(tenant_id, lease_id), amount), (income(gpu_model), -amount))


def round_lines(currency: str, residuals: dict[str, int]) -> list[Posting]:
    """Takes out of income, by GPU model, what the lines of an invoice were rounded down by."""
    entries = [(income(model), residual) for model, residual in sorted(residuals.items())]
    return balanced(*entries, (rounding(currency), -sum(residuals.values())))
