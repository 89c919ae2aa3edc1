"""What the provider's side looks up: machines and bills.

Machines wait for their next accrual in the order of their last one. A machine whose leases
changed is stale at once, also after its end: late facts move cost between leased and idle.
"""

from collections.abc import Iterable
from itertools import chain, islice, takewhile
from typing import Any

from billing.domain import Meter
from billing.domain.provider_bill import ProviderBill, ProviderMatch
from billing.domain.provider_meter import ProviderMeter, ProviderNode
from billing.provider_cost import DAY_US, Kind, Machine, spread
from chassis.application import View

_MACHINE = tuple(name for name in Machine.__slots__ if name != "ended_at")


class Machines(View):
    """Every machine that ever cost, those that are due, and which nodes run where."""

    hears = (
        ProviderMeter.Opened,
        ProviderMeter.Accrued,
        ProviderMeter.TerminationRequested,
        ProviderMeter.Closed,
        ProviderNode.Linked,
        Meter.Opened,
        Meter.Closed,
    )

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.orphans: dict[str, str] = {}
        self.links: dict[str, str] = {}
        # Machine to its last accrual, longest ago first.
        self.waiting: dict[str, int] = {}
        self.stale: dict[str, int] = {}
        # Open leases and the instance they run on.
        self.leases: dict[str, str] = {}

    def apply(self, event: Any) -> None:
        match event:
            case ProviderMeter.Opened():
                self._open(event)
            case ProviderMeter.Accrued():
                self._accrue(event)
            case ProviderMeter.TerminationRequested():
                self.rows[event.originator_id]["terminating_at"] = event.timestamp
            case ProviderMeter.Closed():
                self._close(event)
            case ProviderNode.Linked():
                self.links[event.node_id] = event.instance_id
            case Meter.Opened():
                if instance_id := self.links.get(event.node_id):
                    self.leases[event.originator_id] = instance_id
                    self._doubt(instance_id, event.timestamp)
            case Meter.Closed():
                if instance_id := self.leases.pop(event.originator_id, ""):
                    self._doubt(instance_id, event.timestamp)

    def _open(self, event: Any) -> None:
        meter_id = event.originator_id
        self.rows[meter_id] = {name: getattr(event, name) for name in _MACHINE} | {
            "ended_at": 0,
            "accrued_us": 0,
            "leased_nanos": 0,
            "idle_nanos": 0,
            "leak_nanos": 0,
            "terminating_at": 0,
        }
        self.waiting[meter_id] = event.timestamp
        if event.kind == Kind.ORPHAN:
            self.orphans[f"{event.source_id}/{event.provider_id}"] = meter_id

    def _accrue(self, event: Any) -> None:
        row = self.rows[event.originator_id]
        row["accrued_us"] = event.until_us
        for part in ("leased_nanos", "idle_nanos", "leak_nanos"):
            row[part] += getattr(event, part)
        self.stale.pop(event.originator_id, None)
        if self.waiting.pop(event.originator_id, None) is not None:
            self.waiting[event.originator_id] = event.timestamp

    def _close(self, event: Any) -> None:
        row = self.rows[event.originator_id]
        row["ended_at"] = event.ended_at
        self.waiting.pop(event.originator_id, None)
        if row["kind"] == Kind.ORPHAN:
            self.orphans.pop(f"{row['source_id']}/{row['provider_id']}", None)

    def _doubt(self, instance_id: str, at: int) -> None:
        meter_id = f"prv_{instance_id}"
        if meter_id in self.rows:
            self.stale[meter_id] = at

    def due(self, before: int, limit: int) -> list[str]:
        """Machines whose leases changed, then those not accrued since ``before``."""
        late = takewhile(lambda item: item[1] <= before, self.waiting.items())
        found = dict.fromkeys(chain(self.stale, (meter_id for meter_id, _ in late)))
        return list(islice(found, limit))

    def machine(self, meter_id: str) -> Machine:
        row = self.rows[meter_id]
        return Machine(**{name: row[name] for name in Machine.__slots__})

    def of(self, source_id: str) -> Iterable[tuple[str, Machine]]:
        """The machines of a source, or of all."""
        for meter_id, row in self.rows.items():
            if source_id in ("", row["source_id"]):
                yield meter_id, self.machine(meter_id)

    def nodes(self, instance_id: str) -> list[str]:
        return [node for node, linked in self.links.items() if linked == instance_id]

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.waiting = dict(sorted(self.waiting.items(), key=lambda item: item[1]))
        self.stale = dict(sorted(self.stale.items(), key=lambda item: item[1]))


class Bills(View):
    """Lines of providers' bills by UTC day and machine, and what was accepted of them."""

    hears = (ProviderBill.Imported, ProviderMatch.Opened, ProviderMatch.Accepted)

    def __init__(self) -> None:
        # Day to "source/provider_id" to currency, nano-units and microseconds.
        self.days: dict[str, dict[str, list[Any]]] = {}
        self.accepted: dict[str, dict[str, int]] = {}
        self.matches: dict[str, str] = {}

    def apply(self, event: Any) -> None:
        match event:
            case ProviderBill.Imported():
                for line in event.lines:
                    self._add(f"{event.source_id}/{line['provider_id']}", event.currency, line)
            case ProviderMatch.Opened():
                self.matches[event.originator_id] = f"{event.source_id}/{event.provider_id}"
                self.accepted.setdefault(str(event.day), {})
            case ProviderMatch.Accepted():
                machine = self.matches[event.originator_id]
                day = self.accepted[event.originator_id.rpartition("_")[2]]
                day[machine] = day.get(machine, 0) + event.difference_nanos

    def _add(self, machine: str, currency: str, line: dict[str, Any]) -> None:
        span = (line["from_at"], line["until_at"], DAY_US)
        times = dict(spread(line["until_at"] - line["from_at"], *span))
        for day, nanos in spread(line["amount_nanos"], *span):
            row = self.days.setdefault(str(day), {}).setdefault(machine, [currency, 0, 0])
            row[1] += nanos
            row[2] += times[day]
