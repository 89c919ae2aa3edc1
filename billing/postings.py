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
COMMIT_UNUSED = "income:commit_unused"
TAX = "liability:tax"
BREAKAGE = "income:breakage"
PROMOTION = "expense:promotion"
SLA_CREDIT = "expense:sla_credit"


class Unbalanced(Invalid):
    """Money would appear or vanish."""

    default_code = "UNBALANCED"


def receivable(tenant_id: str) -> str:
    return f"asset:receivable:{tenant_id}"


def prepaid(tenant_id: str) -> str:
    return f"liability:prepaid:{tenant_id}"


def promo(tenant_id: str) -> str:
    return f"liability:promo:{tenant_id}"


def hold(tenant_id: str, lease_id: str) -> str:
    return f"liability:hold:{tenant_id}:{lease_id}"


def income(gpu_model: str) -> str:
    return f"income:gpu:{gpu_model}"


def fx(pair: str) -> str:
    return f"equity:fx:{pair}"


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


def feed_hold(
    tenant_id: str, lease_id: str, delta: int, *, on_credit: int, from_promo: int = 0
) -> list[Posting]:
    """Into a lease's hold: from promotional money, from prepaid, and the rest is owed."""
    return balanced(
        (promo(tenant_id), from_promo),
        (prepaid(tenant_id), delta - from_promo - on_credit),
        (receivable(tenant_id), on_credit),
        (hold(tenant_id, lease_id), -delta),
    )


def release_hold(
    tenant_id: str, lease_id: str, amount: int, *, owed: int, to_promo: int = 0
) -> list[Posting]:
    settled = min(amount - to_promo, owed)
    return balanced(
        (hold(tenant_id, lease_id), amount),
        (promo(tenant_id), -to_promo),
        (receivable(tenant_id), -settled),
        (prepaid(tenant_id), settled + to_promo - amount),
    )


def grant(tenant_id: str, amount: int, source: str) -> list[Posting]:
    """Promotional money, from what it costs us."""
    return balanced((source, amount), (promo(tenant_id), -amount))


def expire(tenant_id: str, amount: int) -> list[Posting]:
    return balanced((promo(tenant_id), amount), (BREAKAGE, -amount))


def commitment_hour(
    tenant_id: str,
    gpu_model: str,
    *,
    used: int,
    unused: int,
    given_back: int,
    available: int,
    owed: int,
) -> list[Posting]:
    """An hour of a commitment for what the leases it covers had cost; the rest is the tenant's."""
    due = used + unused - given_back
    prepaid_part = min(due, available) if due > 0 else due + min(-due, owed)
    return balanced(
        (prepaid(tenant_id), prepaid_part),
        (receivable(tenant_id), due - prepaid_part),
        (f"income:commit:{gpu_model}", -used),
        (COMMIT_UNUSED, -unused),
        (income(gpu_model), given_back),
    )


def exchange_in(pair: str, amount: int) -> list[Posting]:
    """A payment in another currency, in that currency."""
    return balanced((CASH, amount), (fx(pair), -amount))


def exchange_out(tenant_id: str, pair: str, amount: int, *, owed: int) -> list[Posting]:
    """The same payment in the account's own currency."""
    return give(tenant_id, amount, fx(pair), owed=owed)


def charge(tenant_id: str, lease_id: str, gpu_model: str, amount: int) -> list[Posting]:
    """A slice, from the lease's hold to income; a correction goes the other way."""
    return balanced((hold(tenant_id, lease_id), amount), (income(gpu_model), -amount))


def take(tenant_id: str, amount: int, other: str, *, available: int) -> list[Posting]:
    """From the tenant to another account; what is not prepaid is owed."""
    paid = min(amount, available)
    return balanced(
        (prepaid(tenant_id), paid), (receivable(tenant_id), amount - paid), (other, -amount)
    )


def give(tenant_id: str, amount: int, other: str, *, owed: int) -> list[Posting]:
    """To the tenant from another account; what is owed is settled first."""
    settled = min(amount, owed)
    return balanced(
        (other, amount), (receivable(tenant_id), -settled), (prepaid(tenant_id), settled - amount)
    )
