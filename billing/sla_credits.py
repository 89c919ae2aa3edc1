"""Service credits as commands: windows as enforcement tells of them, credits with each invoice.

A credit is a note on the line, with its windows as proof, and promotional money; nobody claims it.
"""

from billing import postings, sla
from billing.domain import Account, Invoice, Meter, account_id, meter_id
from billing.domain.account_terms import Grant
from billing.domain.impairment import Impairment, impairment_id
from billing.funding import Funding
from chassis.clock import SECOND

CREDIT_LASTS_US = 365 * 86_400 * SECOND
REASON = "service level"


class ServiceCredits(Funding):
    def impair(
        self, lease_id: str, tenant_id: str, step: str, since: int, by: str, *, at: int
    ) -> None:
        """Enforcement took a step; ``by`` is the event that says so."""
        impairment = self.find(Impairment, impairment_id(lease_id))
        if impairment is None:
            meter = self.find(Meter, meter_id(lease_id))
            correlation_id = meter.correlation_id if meter else ""
            impairment = Impairment.open(lease_id, tenant_id, correlation_id, at=at)
        impairment.begin(step, since, by, at=at)
        self.save(impairment)

    def restore(self, lease_id: str, until: int, by: str, *, at: int) -> None:
        if impairment := self.find(Impairment, impairment_id(lease_id)):
            impairment.end(until, by, at=at)
            self.save(impairment)

    def credit_service(self, invoice: Invoice, *, at: int) -> None:
        """Credit each line whose lease fell below what its tier promises."""
        for line in invoice.lines:
            impairment = self.find(Impairment, impairment_id(line["lease_id"]))
            if impairment is None:
                continue
            windows = sla.within(impairment.windows, line["activated_at"], line["ended_at"])
            tier = self.get(Meter, meter_id(line["lease_id"])).sla_tier
            amount = sla.owed(line, windows, tier, invoice.currency)
            if amount:
                note = invoice.credit(line["line"], amount, REASON, windows=windows, at=at)
                self._give(invoice, note, amount, at=at)
        self.save(invoice)

    def _give(self, invoice: Invoice, note: str, amount: int, *, at: int) -> None:
        account = self.get(Account, account_id(invoice.tenant_id))
        account.grant(
            Grant(
                note, amount, invoice.currency, at + CREDIT_LASTS_US, REASON, postings.SLA_CREDIT
            ),
            at=at,
        )
        self.save(account)
