"""Payments in another currency: two linked transactions, each balanced in its own currency.

What came in stands on ``equity:fx:<pair>`` in its currency, and what the account was credited
with, in the account's. The rate, who said so and when are in the event; nothing is converted
again later.
"""

from billing import postings
from billing.domain import Account, account_id
from billing.domain.account import AMOUNT_NANOS_MAX, ReferenceReused
from billing.money import half_even, minor_unit
from chassis.application import Application
from chassis.clock import SECOND
from chassis.errors import Invalid, Refused

# A rate that is older no longer says what the money is worth.
QUOTE_AGE_US_MAX = 24 * 3600 * SECOND


class Exchanging(Application):
    def exchange(
        self,
        tenant_id: str,
        amount_nanos: int,
        currency: str,
        rate: tuple[int, int],
        *,
        source: str,
        quoted_at: int,
        reference: str,
        at: int,
    ) -> int:
        """Take a payment in; answers what the account was credited with. Once per reference."""
        account = self.get(Account, account_id(tenant_id))
        credited = _credited(account, amount_nanos, currency, rate)
        _check_quote(source, quoted_at, reference, at=at)
        if reference in account.payments:
            if account.payments[reference] != credited:
                raise ReferenceReused(f"payment {reference!r} was of another amount")
            return credited
        if account.prepaid_nanos + credited > AMOUNT_NANOS_MAX:
            raise Refused("the balance would pass 10^18 nano-units", code="BALANCE_MAX")
        pair = f"{currency}_{account.currency}"
        account.trigger_event(
            Account.Exchanged,
            reference=reference,
            amount_nanos=amount_nanos,
            currency=currency,
            credited_nanos=credited,
            credited_currency=account.currency,
            rate_n=rate[0],
            rate_d=rate[1],
            source=source,
            quoted_at=quoted_at,
            postings=postings.exchange_in(pair, amount_nanos),
            timestamp=at,
        )
        account.trigger_event(
            Account.ToppedUp,
            amount_nanos=credited,
            currency=account.currency,
            reference=reference,
            postings=postings.exchange_out(tenant_id, pair, credited, owed=account.owed_nanos),
            timestamp=at,
        )
        self.save(account)
        return credited


def _credited(account: Account, amount: int, currency: str, rate: tuple[int, int]) -> int:
    if any(type(number) is not int for number in (amount, *rate)):
        raise Invalid("money and rates are integers", code="MONEY")
    minor_unit(currency)
    if currency == account.currency:
        raise Invalid(f"the account is in {currency} already", code="CURRENCY")
    if not 0 < amount <= AMOUNT_NANOS_MAX or min(rate) < 1:
        raise Invalid("an amount and a rate are above 0", code="AMOUNT")
    credited = half_even(amount * rate[0], rate[1])
    if not 0 < credited <= AMOUNT_NANOS_MAX:
        raise Invalid("an exchanged amount is above 0 and at most 10^18", code="AMOUNT")
    return credited


def _check_quote(source: str, quoted_at: int, reference: str, *, at: int) -> None:
    if not (source and reference):
        raise Invalid("an exchange names its payment and the source of its rate", code="SOURCE")
    if not at - QUOTE_AGE_US_MAX <= quoted_at <= at:
        raise Refused("the rate is older than a day, or of the future", code="QUOTE_AGE")
