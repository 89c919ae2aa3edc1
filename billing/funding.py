"""Terms, promotional money, runway, credit notes and budgets as commands.

Whether a hold may be placed is decided on the account and, for budgets, on what the period has
used and holds; what one call has placed already counts for its next hold.
"""

from collections.abc import Sequence
from typing import Any

from billing import postings
from billing.domain import Account, Invoice, account_id
from billing.domain.account_terms import Grant
from billing.domain.budget import Budget, budget_id
from billing.funding_views import Budgets, Burn, Grants, Spending
from billing.invoicing import Invoicing
from billing.money import HOUR_US
from billing.periods import zone
from billing.policy import HoldRequest
from chassis.clock import SECOND

# The runway is told of at a day, an hour, a quarter of one, and five minutes.
RUNWAY_US = tuple(seconds * SECOND for seconds in (86_400, 3_600, 900, 300))


class Funding(Invoicing):
    def watch_funding(self) -> None:
        self.burn = Burn()
        self.spending = Spending()
        self.grants = Grants()
        self.budgets = Budgets()
        self.views |= {
            "burn": self.burn,
            "spending": self.spending,
            "grants": self.grants,
            "budgets": self.budgets,
        }

    def set_terms(
        self, tenant_id: str, zone_name: str, credit_limit_nanos: int, *, at: int
    ) -> dict[str, Any]:
        account = self.get(Account, account_id(tenant_id))
        account.set_terms(zone(zone_name or account.zone).key, credit_limit_nanos, at=at)
        self.save(account)
        return self._funds(account)

    def grant_promo(self, tenant_id: str, grant: Grant, *, at: int) -> dict[str, Any]:
        account = self.get(Account, account_id(tenant_id))
        account.grant(grant, at=at)
        self.save(account)
        return self._funds(account)

    def funds(self, tenant_id: str) -> dict[str, Any]:
        return self._funds(self.get(Account, account_id(tenant_id)))

    def _funds(self, account: Account) -> dict[str, Any]:
        burn = self.burn.hourly(account.tenant_id)
        return {
            "tenant_id": account.tenant_id,
            "currency": account.currency,
            "zone": account.zone,
            "prepaid_nanos": account.prepaid_nanos,
            "promo_nanos": account.promo_nanos,
            "credit_limit_nanos": account.limit_nanos,
            "owed_nanos": account.owed_nanos,
            "available_nanos": account.available_nanos,
            "burn_hour_nanos": burn,
            "runway_us": account.available_nanos * HOUR_US // burn if burn else 0,
        }

    def watch_money(self, *, at: int) -> None:
        """Expire promotional money, tell of short runways and of passed budgets."""
        for tenant_id in self.grants.expired(at):
            account = self.get(Account, account_id(tenant_id))
            account.expire_promo(at=at)
            self.save(account)
        for tenant_id in list(self.burn.tenants):
            self._warn(tenant_id, at=at)
        for tenant_id, ids in self.budgets.tenants.items():
            period = self.periods.current(tenant_id)
            for aggregate_id in ids if period else ():
                budget = self.get(Budget, aggregate_id)
                used, _ = self.spending.of(tenant_id, budget.project)
                budget.spent(period["period_id"], used, at=at)  # type: ignore[index]
                self.save(budget)

    def _warn(self, tenant_id: str, *, at: int) -> None:
        account = self.get(Account, account_id(tenant_id))
        burn = self.burn.hourly(tenant_id)
        runway_us = account.available_nanos * HOUR_US // burn
        for threshold_us in RUNWAY_US:
            if runway_us <= threshold_us:
                account.warn(runway_us, burn, threshold_us, at=at)
        self.save(account)

    # Credit notes.

    def credit_line(
        self, invoice_id: str, line: int, amount_nanos: int, reason: str, *, at: int
    ) -> dict[str, Any]:
        """Give back part of a line; income is reduced by it."""
        invoice = self.get(Invoice, invoice_id)
        source = postings.income(invoice.lines[line - 1]["gpu_model"]) if invoice.has(line) else ""
        credit_note_id = invoice.credit(line, amount_nanos, reason, at=at)
        self.save(invoice)
        account = self.get(Account, account_id(invoice.tenant_id))
        account.credit(credit_note_id, amount_nanos, source, at=at)
        self.save(account)
        return invoice.credits[-1]

    # Budgets.

    def set_budget(
        self, tenant_id: str, project: str, soft: int, hard: int, role: str, *, at: int
    ) -> dict[str, Any]:
        account = self.get(Account, account_id(tenant_id))
        budget = self.find(Budget, budget_id(tenant_id, project)) or Budget.open(
            tenant_id, project, account.currency, at=at
        )
        budget.set(soft, hard, role, at=at)
        self.save(budget)
        return self._budget(budget, at)

    def list_budgets(self, tenant_id: str, at: int) -> list[dict[str, Any]]:
        ids = self.budgets.tenants.get(tenant_id, [])
        return [self._budget(self.get(Budget, one), at) for one in ids]

    def _budget(self, budget: Budget, at: int) -> dict[str, Any]:
        """With what is used, held, and at the current burn will be used when the period ends."""
        used, held = self.spending.of(budget.tenant_id, budget.project)
        period = self.periods.current(budget.tenant_id)
        left_us = max(0, period["ends_at"] - at) if period else 0
        burn = self.burn.hourly(budget.tenant_id, budget.project)
        more = {"used_nanos": used, "held_nanos": held}
        return budget.facts() | more | {"forecast_nanos": used + burn * left_us // HOUR_US}

    def over_budget(
        self, request: HoldRequest, size: int, placed: Sequence[tuple[str, int]]
    ) -> str:
        """Which hard budget a hold would pass, as a sentence; "" if none."""
        for project in {"", request.project}:
            budget = self.find(Budget, budget_id(request.tenant_id, project))
            if budget is None or not budget.hard_nanos:
                continue
            used, held = self.spending.of(request.tenant_id, project)
            before = sum(nanos for name, nanos in placed if project in ("", name))
            if used + held + before + size > budget.hard_nanos:
                whose = f"project {project}" if project else "the tenant"
                return f"the budget of {whose} would be passed"
        return ""
