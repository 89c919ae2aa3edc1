"""What funding and budgets look up: burn, spending of the period, promotional money, budgets."""

from typing import Any

from billing.domain import Account, Meter, Period
from billing.domain.budget import Budget
from billing.money import HOUR_US, Rate
from chassis.application import View


class Burn(View):
    """What open leases cost per hour, by tenant and meter, with the project of each."""

    def __init__(self) -> None:
        self.tenants: dict[str, dict[str, list[Any]]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Meter.Opened):
            rate = Rate(event.price_nanos, event.per_gpu_us)
            hourly = rate.amount(event.gpu_count * HOUR_US)
            meters = self.tenants.setdefault(event.tenant_id, {})
            meters[event.originator_id] = [event.project, hourly]
        elif isinstance(event, Meter.Closed):
            meters = self.tenants[event.tenant_id]
            del meters[event.originator_id]
            if not meters:
                del self.tenants[event.tenant_id]

    def hourly(self, tenant_id: str, project: str = "") -> int:
        meters = self.tenants.get(tenant_id, {}).values()
        return sum(int(nanos) for name, nanos in meters if project in ("", name))


class Spending(View):
    """What each project of a tenant used since its period began, and what is held for it now."""

    def __init__(self) -> None:
        self.used: dict[str, dict[str, int]] = {}
        # By tenant and lease, with the project of each lease that has a hold.
        self.held: dict[str, dict[str, int]] = {}
        self.projects: dict[str, str] = {}

    def apply(self, event: Any) -> None:
        match event:
            # What was used before there was a period belongs to the first one.
            case Period.Opened() if event.number > 1:
                self.used[event.tenant_id] = {}
            case Account.HoldPlaced():
                self.projects[event.lease_id] = vars(event).get("project", "")
            case Meter.Opened():
                self.projects[event.lease_id] = event.project
        for entry in vars(event).get("postings") or []:
            match entry["account"].split(":"):
                case ["liability", "hold", tenant_id, lease_id]:
                    _add(self.held, tenant_id, lease_id, -entry["amount_nanos"])
                case ["income", "gpu", *_] if isinstance(event, Meter.Event):
                    project = self.projects.get(event.originator_id.removeprefix("mtr_"), "")
                    _add(self.used, event.tenant_id, project, -entry["amount_nanos"])
        if isinstance(event, Account.HoldReleased):
            self.projects.pop(event.lease_id, None)

    def of(self, tenant_id: str, project: str = "") -> tuple[int, int]:
        """Used and held, of a project or of all."""
        used, held = self.used.get(tenant_id, {}), self.held.get(tenant_id, {})
        if not project:
            return sum(used.values()), sum(held.values())
        own = [nanos for lease, nanos in held.items() if self.projects.get(lease) == project]
        return used.get(project, 0), sum(own)


def _add(sums: dict[str, dict[str, int]], tenant_id: str, name: str, amount: int) -> None:
    rows = sums.setdefault(tenant_id, {})
    rows[name] = rows.get(name, 0) + amount
    if not rows[name]:
        del rows[name]


class Grants(View):
    """Which accounts have promotional money that expires, and when next."""

    def __init__(self) -> None:
        self.tenants: dict[str, dict[str, int]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Account.PromoGranted):
            self.tenants.setdefault(event.tenant_id, {})[event.grant_id] = event.expires_at

    def expired(self, at: int) -> list[str]:
        return sorted(
            tenant_id
            for tenant_id, grants in self.tenants.items()
            if any(expires_at <= at for expires_at in grants.values())
        )


class Budgets(View):
    """Ids of the budgets of each tenant."""

    def __init__(self) -> None:
        self.tenants: dict[str, list[str]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Budget.Opened):
            self.tenants.setdefault(event.tenant_id, []).append(event.originator_id)
