"""Invoices and periods as commands: every nano-unit of a lease is invoiced once, in order of time.

A period closes in steps, one invoice each, so that no command is long; a step that is repeated
finds its lines invoiced and goes on with the next.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from billing import periods
from billing.domain import Account, Invoice, Meter, Period, account_id
from billing.domain.invoice import LINES_MAX
from billing.domain.lines import Line, TaxRule, changed, lines_of, settled, untaxed
from billing.invoice_views import OnInvoices, OpenMeters, Periods
from billing.projections import Balances, Invoices, Uninvoiced
from chassis.application import Application
from chassis.errors import Refused

# So many steps of closing in one command, so that others need not wait long.
STEPS_MAX = 20
FOREVER = 2**62


class Invoicing(Application):
    grace_us = periods.GRACE_US
    tax: TaxRule = staticmethod(untaxed)

    balances: Balances
    invoices: Invoices
    uninvoiced: Uninvoiced

    def watch_invoicing(self) -> None:
        self.on_invoices = OnInvoices()
        self.open_meters = OpenMeters()
        self.periods = Periods()
        self.views |= {
            "on_invoices": self.on_invoices,
            "open_meters": self.open_meters,
            "periods": self.periods,
        }

    def issue_invoice(self, tenant_id: str, *, at: int) -> dict[str, Any]:
        """Bill leases that have ended, before their period does."""
        self.get(Account, account_id(tenant_id))
        due = self.uninvoiced.oldest(tenant_id, LINES_MAX)
        if not due:
            raise Refused("no ended lease is without an invoice", code="NOTHING_TO_BILL")
        meters = [self.get(Meter, aggregate_id) for aggregate_id in due]
        return self._issue(tenant_id, meters, until=FOREVER, period_id="", at=at).facts()

    def close_due(self, *, at: int) -> bool:
        """Open and close periods, a bounded amount; whether more may be due."""
        new = [tenant for tenant in self.balances.tenants if tenant not in self.periods.tenants]
        for tenant_id in new[:STEPS_MAX]:
            self._open_period(tenant_id, at=at)
        due = list(islice(self.periods.due(at), STEPS_MAX))
        return bool(new) or any([self._step(*one, at=at) for one in due])

    def _step(self, tenant_id: str, facts: dict[str, Any], *, at: int) -> bool:
        """One step of one period; whether it did anything."""
        if facts["closed_at"]:
            self._open_period(tenant_id, at=at)
            return True
        ends_at = facts["ends_at"]
        watermark = self.open_meters.watermark(tenant_id, ends_at)
        cause = periods.may_close(ends_at, watermark, at=at, grace_us=self.grace_us)
        if not cause:
            return False
        if due := self._due(tenant_id, ends_at):
            self._issue(tenant_id, due, until=ends_at, period_id=facts["period_id"], at=at)
            return True
        period = self.get(Period, facts["period_id"])
        period.close(cause, watermark, at=at)
        self.save(period)
        return True

    def _open_period(self, tenant_id: str, *, at: int) -> None:
        """The first period is the one of now; each later one begins where the last ended."""
        account = self.get(Account, account_id(tenant_id))
        last = self.periods.current(tenant_id)
        number = last["number"] + 1 if last else 1
        starts_at = last["ends_at"] if last else periods.month_start(at, account.zone)
        ends_at = periods.month_end(starts_at, account.zone)
        self.save(Period.open(tenant_id, number, account.zone, starts_at, ends_at, at=at))

    def _due(self, tenant_id: str, until: int) -> list[Meter]:
        """Meters with time before ``until`` that is on no invoice; as many as an invoice takes."""
        ids = [*self.uninvoiced.of(tenant_id), *self.open_meters.of(tenant_id)]
        meters = (self.get(Meter, aggregate_id) for aggregate_id in ids)
        due = (meter for meter in meters if self._invoiceable(meter, until))
        return list(islice(due, LINES_MAX))

    def _invoiceable(self, meter: Meter, until: int) -> bool:
        before, end_us = self.on_invoices.of(meter.lease_id), _end_us(meter, until)
        # An ended lease of no length has a line of nothing, so that it too is settled.
        ended = settled(meter, end_us) and meter.activated_at < until
        return ended or end_us != before.until_us or changed(meter, before) != 0

    def _issue(
        self, tenant_id: str, meters: Iterable[Meter], *, until: int, period_id: str, at: int
    ) -> Invoice:
        account = self.get(Account, account_id(tenant_id))
        edges = self.periods.closed_edges(tenant_id)
        lines: list[Line] = []
        taken = list(meters)
        for meter in taken:
            before = self.on_invoices.of(meter.lease_id)
            lines += lines_of(meter, before, _end_us(meter, until), edges)
        invoice = Invoice.issue(
            tenant_id,
            self.invoices.next_number(tenant_id),
            account.currency,
            lines,
            period_id=period_id,
            tax=self.tax,
            at=at,
        )
        self.save(invoice)
        self._mark_invoiced(invoice, taken, until, at=at)
        account.settle_invoice(
            invoice.id, residual=invoice.residual_nanos, tax=invoice.tax_nanos, at=at
        )
        self.save(account)
        self.credit_service(invoice, at=at)
        return invoice

    def credit_service(self, invoice: Invoice, *, at: int) -> None:
        """Credit what the lines did not keep of their service level; see ServiceCredits."""

    def _mark_invoiced(self, invoice: Invoice, meters: list[Meter], until: int, *, at: int) -> None:
        """Leases that have ended and stand on invoices to their end need no other."""
        for meter in meters:
            if not settled(meter, _end_us(meter, until)):
                continue
            own = [row for row in invoice.lines if row["lease_id"] == meter.lease_id]
            before = self.on_invoices.of(meter.lease_id).amount_nanos
            amount = before + sum(row["amount_nanos"] for row in own)
            last = max((row["line"] for row in own), default=0)
            meter.invoice(invoice.id, last, amount, at=at)
            self.save(meter)


def _end_us(meter: Meter, until: int) -> int:
    """How far a lease is billed before an instant."""
    return max(0, min(meter.billed_us, until - meter.activated_at))
