"""A budget: what a project or a whole tenant may spend in one period.

Passing the soft amount is told once per period; nothing is admitted that would pass the hard one.
"""

from __future__ import annotations

from typing import Any

from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Denied, Invalid

AMOUNT_NANOS_MAX = 10**18
# Who may let a budget grow; anybody who may set one can make it smaller.
MAY_RAISE = frozenset({"operator", "tenant_admin"})


def budget_id(tenant_id: str, project: str) -> str:
    """``project`` "" stands for all of the tenant."""
    return f"bud_{tenant_id.removeprefix('ten_')}" + (f":{project}" if project else "")


class Budget(Aggregate):
    TOPIC = "billing.budget"

    def __init__(self, tenant_id: str, project: str, currency: str) -> None:
        self.tenant_id = tenant_id
        self.project = project
        self.currency = currency
        self.soft_nanos = 0
        self.hard_nanos = 0
        self.told = ""

    class Opened(FirstEvent):
        TOPIC = "billing.budget.opened"
        tenant_id: str
        project: str
        currency: str

    @classmethod
    def open(cls, tenant_id: str, project: str, currency: str, *, at: int) -> Budget:
        return cls._create(
            cls.Opened,
            id=budget_id(tenant_id, project),
            tenant_id=tenant_id,
            project=project,
            currency=currency,
            timestamp=at,
        )

    def set(self, soft_nanos: int, hard_nanos: int, role: str, *, at: int) -> None:
        """Change the amounts; 0 means none. A larger or removed amount is a raise."""
        if not 0 <= soft_nanos <= AMOUNT_NANOS_MAX or not 0 <= hard_nanos <= AMOUNT_NANOS_MAX:
            raise Invalid("a budget is from 0 to 10^18 nano-units", code="AMOUNT")
        if hard_nanos and soft_nanos > hard_nanos:
            raise Invalid("the soft amount is at most the hard one", code="AMOUNT")
        raised = self.hard_nanos and (not hard_nanos or hard_nanos > self.hard_nanos)
        if raised and role not in MAY_RAISE:
            raise Denied(f"a {role} may not raise a budget", code="BUDGET_RAISE")
        if (soft_nanos, hard_nanos) != (self.soft_nanos, self.hard_nanos):
            self.trigger_event(
                self.Changed, soft_nanos=soft_nanos, hard_nanos=hard_nanos, timestamp=at
            )

    class Changed(Aggregate.Event):
        TOPIC = "billing.budget.changed"
        soft_nanos: int
        hard_nanos: int

        def apply(self, budget: Budget) -> None:
            budget.soft_nanos = self.soft_nanos
            budget.hard_nanos = self.hard_nanos
            budget.told = ""

    def spent(self, period_id: str, spent_nanos: int, *, at: int) -> None:
        """Tell, once per period, that the soft amount is passed."""
        if self.soft_nanos and spent_nanos > self.soft_nanos and self.told != period_id:
            self.trigger_event(
                self.SoftPassed, period_id=period_id, spent_nanos=spent_nanos, timestamp=at
            )

    class SoftPassed(Aggregate.Event):
        TOPIC = "billing.budget.soft_passed"
        period_id: str
        spent_nanos: int

        def apply(self, budget: Budget) -> None:
            budget.told = self.period_id

    def facts(self) -> dict[str, Any]:
        names = ("tenant_id", "project", "currency", "soft_nanos", "hard_nanos")
        return {"budget_id": self.id} | {name: getattr(self, name) for name in names}
