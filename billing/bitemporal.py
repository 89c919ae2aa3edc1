"""The ledger as of one time, as known at another: a fold over the log with two cut-offs. Pure.

``as_known`` cuts by when an event was recorded, ``as_of`` by when it took effect. A slice takes
effect when its interval ends, a change of a lease's terms where it begins; everything else when it
is recorded. Nothing is ever rewritten, so an answer for two times in the past stays the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from chassis import canonical
from chassis.events import Recorded

OPENED = "billing.meter.opened"
FOREVER = 2**63 - 1


@dataclass(slots=True)
class Picture:
    """Balances by currency and account, costs by lease, and events that do not balance."""

    balances: dict[str, dict[str, int]] = field(default_factory=dict)
    costs: dict[str, int] = field(default_factory=dict)
    unbalanced: list[int] = field(default_factory=list)
    events: int = 0
    _began: dict[str, int] = field(default_factory=dict)

    def take(
        self, rows: Iterable[Recorded], *, as_of: int = FOREVER, as_known: int = FOREVER
    ) -> None:
        for row in rows:
            event = canonical.loads(row.data)
            if event["meta"]["at"] > as_known:
                continue
            if row.topic == OPENED:
                self._began[row.aggregate_id] = event["activated_at"]
            if self._effective(row, event) <= as_of:
                self._post(row, event)

    def _effective(self, row: Recorded, event: dict[str, Any]) -> int:
        began = self._began.get(row.aggregate_id)
        if began is None or "from_us" not in event:
            return int(event["meta"]["at"])
        if row.topic == "billing.meter.slice_recorded":
            return began + max(event["from_us"], event["until_us"])
        return began + int(event["from_us"])

    def _post(self, row: Recorded, event: dict[str, Any]) -> None:
        entries = event.get("postings") or []
        if not entries:
            return
        self.events += 1
        if sum(entry["amount_nanos"] for entry in entries):
            self.unbalanced.append(row.position)
        accounts = self.balances.setdefault(event["currency"], {})
        for entry in entries:
            name, amount = entry["account"], entry["amount_nanos"]
            accounts[name] = accounts.get(name, 0) + amount
            if not accounts[name]:
                del accounts[name]
            if name.startswith("income:gpu:") and row.aggregate_id.startswith("mtr_"):
                lease_id = row.aggregate_id.removeprefix("mtr_")
                self.costs[lease_id] = self.costs.get(lease_id, 0) - amount
