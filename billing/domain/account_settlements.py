"""How an invoice is settled with a tenant: rounding, tax, credit notes.

What a tenant pays for the leases on an invoice is the invoice's total, to the nano-unit: its
slices were paid exactly, and what rounding left is given back or paid in addition. What is not
prepaid is owed, so nothing goes below zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from billing import postings
from billing.postings import Posting
from chassis.aggregates import Aggregate

# A part is mixed into the account; only the whole of it is an aggregate.
if TYPE_CHECKING:
    _Part = Aggregate
else:
    _Part = object


class Settlements(_Part):
    """The part of an account that invoices and credit notes speak to."""

    # The account names its events; see there.
    Rounded: ClassVar[Any]
    Taxed: ClassVar[Any]
    Credited: ClassVar[Any]

    currency: str
    prepaid_nanos: int
    owed_nanos: int

    def settle_invoice(self, invoice_id: str, *, residual: int, tax: int, at: int) -> None:
        """What rounding left is given back or paid in addition, so that the total is paid."""
        if residual:
            self.trigger_event(
                self.Rounded,
                invoice_id=invoice_id,
                residual_nanos=residual,
                currency=self.currency,
                postings=self._settled(residual, postings.rounding(self.currency)),
                timestamp=at,
            )
        if tax:
            self.trigger_event(
                self.Taxed,
                invoice_id=invoice_id,
                amount_nanos=tax,
                currency=self.currency,
                postings=self._settled(-tax, postings.TAX),
                timestamp=at,
            )

    def _settled(self, amount: int, other: str) -> list[Posting]:
        """An amount given to the tenant, or taken if negative, from or to another account."""
        if amount > 0:
            return postings.give(self.tenant_id, amount, other, owed=self.owed_nanos)
        return postings.take(self.tenant_id, -amount, other, available=self.prepaid_nanos)

    def credit(self, credit_note_id: str, amount_nanos: int, source: str, *, at: int) -> None:
        """Give back what a credit note says, from the account it was earned on."""
        self.trigger_event(
            self.Credited,
            credit_note_id=credit_note_id,
            amount_nanos=amount_nanos,
            currency=self.currency,
            postings=self._settled(amount_nanos, source),
            timestamp=at,
        )

    def _post(self, entries: list[Posting]) -> None:
        """The account's own balances are a fold of postings too, so they cannot differ."""
        for entry in entries:
            if entry["account"] == postings.prepaid(self.tenant_id):
                self.prepaid_nanos -= entry["amount_nanos"]
            elif entry["account"] == postings.receivable(self.tenant_id):
                self.owed_nanos += entry["amount_nanos"]


class Rounded(Aggregate.Event):
    TOPIC = "billing.account.rounded"
    invoice_id: str
    residual_nanos: int
    currency: str
    postings: list[Posting]

    def apply(self, account: Settlements) -> None:
        account._post(self.postings)


class Taxed(Aggregate.Event):
    TOPIC = "billing.account.taxed"
    invoice_id: str
    amount_nanos: int
    currency: str
    postings: list[Posting]

    def apply(self, account: Settlements) -> None:
        account._post(self.postings)


class Credited(Aggregate.Event):
    TOPIC = "billing.account.credited"
    credit_note_id: str
    amount_nanos: int
    currency: str
    postings: list[Posting]

    def apply(self, account: Settlements) -> None:
        account._post(self.postings)
