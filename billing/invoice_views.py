"""What invoicing looks up: how far leases stand on invoices, open meters, periods.

All of it is folded from events. Old invoices have lines without an offset: those are whole leases.
"""

from collections.abc import Iterator
from typing import Any

from billing.domain import Invoice, Meter, Period
from billing.domain.lines import Invoiced
from chassis.application import View


class OnInvoices(View):
    """Leases that stand on invoices in part: until when, and with how much money."""

    def __init__(self) -> None:
        self.leases: dict[str, list[int]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Invoice.Issued):
            for line in event.lines:
                lasted = line["ended_at"] - line["activated_at"]
                known = self.leases.setdefault(line["lease_id"], [0, 0, 0])
                known[0] = line.get("offset_us", 0) + lasted
                known[1] += line["exact_nanos"]
                known[2] += line["amount_nanos"]
        elif isinstance(event, Meter.Invoiced):
            self.leases.pop(event.originator_id.removeprefix("mtr_"), None)

    def of(self, lease_id: str) -> Invoiced:
        return Invoiced(*self.leases.get(lease_id, ()))


class OpenMeters(View):
    """Meters that run, by tenant: when each began, and how far its node has confirmed it."""

    def __init__(self) -> None:
        self.tenants: dict[str, dict[str, list[int]]] = {}

    def apply(self, event: Any) -> None:
        match event:
            case Meter.Opened():
                meters = self.tenants.setdefault(event.tenant_id, {})
                meters[event.originator_id] = [event.activated_at, 0]
            case Meter.SliceRecorded():
                if event.confirmed:
                    self._confirmed(event)
            case Meter.Confirmed():
                self._confirmed(event)
            case Meter.Closed():
                del self.tenants[event.tenant_id][event.originator_id]

    def _confirmed(self, event: Any) -> None:
        if meter := self.tenants[event.tenant_id].get(event.originator_id):
            meter[1] = event.until_us

    def of(self, tenant_id: str) -> list[str]:
        return sorted(self.tenants.get(tenant_id, {}))

    def watermark(self, tenant_id: str, until: int) -> int:
        """Up to when everything before ``until`` is confirmed."""
        meters = self.tenants.get(tenant_id, {}).values()
        ends = (began + confirmed for began, confirmed in meters if began < until)
        return min(until, min(ends, default=until))


class Periods(View):
    """Every period by tenant, in order; only the last can be open."""

    def __init__(self) -> None:
        self.tenants: dict[str, list[dict[str, Any]]] = {}

    def apply(self, event: Any) -> None:
        match event:
            case Period.Opened():
                names = ("number", "zone", "starts_at", "ends_at")
                facts = {name: getattr(event, name) for name in names}
                facts |= {"period_id": event.originator_id, "closed_at": 0, "cause": ""}
                self.tenants.setdefault(event.tenant_id, []).append(facts)
            case Period.Closed():
                last = self.tenants[event.tenant_id][-1]
                last |= {"closed_at": event.timestamp, "cause": event.cause}

    def current(self, tenant_id: str) -> dict[str, Any] | None:
        periods = self.tenants.get(tenant_id)
        return periods[-1] if periods else None

    def closed_edges(self, tenant_id: str) -> list[int]:
        periods = self.tenants.get(tenant_id, [])
        return [one["ends_at"] for one in periods if one["closed_at"]]

    def due(self, at: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Periods that are over or closed without a successor, by tenant."""
        for tenant_id, periods in self.tenants.items():
            if periods[-1]["closed_at"] or periods[-1]["ends_at"] <= at:
                yield tenant_id, periods[-1]
