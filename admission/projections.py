"""What admission looks up instead of searching: the queue, the quota in use, who submitted what.

Each view is a fold over events whose cost per event does not grow with what it holds. What is
derived (ranks, counts) is not part of the state; ``load`` makes it again.
"""

from collections import Counter
from typing import Any, NamedTuple

from admission.domain import Workload
from admission.intents import request_of
from admission.policy import PendingReason
from admission.ranking import Ranking
from chassis.application import View


class Queue(View):
    """Who waits, in order of submission; a workload that comes back has its old place.

    ``entries`` holds [sequence, tenant_id, reason] of every workload that has not ended; the
    reason is empty while it does not wait.
    """

    def __init__(self) -> None:
        self.load({"submitted": 0, "entries": {}})

    def state(self) -> dict[str, Any]:
        return {"submitted": self.submitted, "entries": self.entries}

    def load(self, state: dict[str, Any]) -> None:
        self.submitted: int = state["submitted"]
        self.entries: dict[str, list[Any]] = state["entries"]
        waiting = {key: [s, t] for key, (s, t, reason) in self.entries.items() if reason}
        self._ids: dict[int, str] = {sequence: key for key, (sequence, *_) in self.entries.items()}
        self._order = Ranking(sequence for sequence, _ in waiting.values())
        self._tenants: dict[str, Ranking[int]] = {}
        for sequence, tenant_id in waiting.values():
            self._tenants.setdefault(tenant_id, Ranking()).add(sequence)
        self._reasons = Counter(reason for *_, reason in self.entries.values() if reason)

    def apply(self, event: Any) -> None:
        key = event.originator_id
        match event:
            case Workload.Submitted():
                self.submitted += 1
                self.entries[key] = [self.submitted, event.tenant_id, ""]
                self._ids[self.submitted] = key
                self._wait(key, PendingReason.PRIORITY.value)
            case Workload.Deferred():
                self._wait(key, event.reason)
            case Workload.Admitted():
                self._leave(key)
            case Workload.Requeued():
                self._wait(key, self.entries[key][2] or PendingReason.PRIORITY.value)
            case Workload.Ended():
                self._leave(key)
                del self._ids[self.entries.pop(key)[0]]

    def __len__(self) -> int:
        return len(self._order)

    def ahead(self, workload_id: str) -> int | None:
        """How many are before it; None if it does not wait."""
        sequence, _, reason = self.entries.get(workload_id, (0, "", ""))
        return self._order.rank(sequence) if reason else None

    def pending(self, reason: str) -> int:
        return self._reasons[reason]

    def tenants(self) -> list[str]:
        return list(self._tenants)

    def head(self, tenant_id: str) -> int | None:
        """Place of the tenant's first workload that waits; places compare across tenants."""
        line = self._tenants.get(tenant_id)
        return line.first() if line else None

    def behind(self, tenant_id: str, place: int) -> int | None:
        line = self._tenants.get(tenant_id)
        return line.after(place) if line else None

    def place(self, workload_id: str) -> int:
        place: int = self.entries[workload_id][0]
        return place

    def at(self, place: int) -> str:
        return self._ids[place]

    def _wait(self, key: str, reason: str) -> None:
        entry = self.entries[key]
        sequence, tenant_id, before = entry
        if not before:
            self._order.add(sequence)
            self._tenants.setdefault(tenant_id, Ranking()).add(sequence)
        else:
            self._reasons[before] -= 1
        entry[2] = reason
        self._reasons[reason] += 1

    def _leave(self, key: str) -> None:
        entry = self.entries[key]
        sequence, tenant_id, before = entry
        if not before:
            return
        self._order.remove(sequence)
        line = self._tenants[tenant_id]
        line.remove(sequence)
        if not line:
            del self._tenants[tenant_id]
        self._reasons[before] -= 1
        entry[2] = ""


class UsageByTenant(View):
    """GPUs per tenant and model, from admission to the end of the lease.

    ``held`` holds [tenant_id, gpu_model, gpu_count] of every workload that counts.
    """

    def __init__(self) -> None:
        self.held: dict[str, list[Any]] = {}
        self.gpus: dict[str, dict[str, int]] = {}

    def apply(self, event: Any) -> None:
        key, tenant_id = event.originator_id, event.tenant_id
        match event:
            case Workload.Admitted():
                request = request_of(event.intent)
                model, count = request.gpu_model, request.gpu_count
                self.held[key] = [tenant_id, model, count]
                models = self.gpus.setdefault(tenant_id, {})
                models[model] = models.get(model, 0) + count
            case Workload.Requeued() | Workload.Ended():
                self._free(key)

    def of(self, tenant_id: str) -> dict[str, int]:
        return self.gpus.get(tenant_id, {})

    def _free(self, key: str) -> None:
        tenant_id, model, count = self.held.pop(key, ("", "", 0))
        if not count:
            return
        models = self.gpus[tenant_id]
        models[model] -= count
        if not models[model]:
            del models[model]
        if not models:
            del self.gpus[tenant_id]


class Page(NamedTuple):
    workload_ids: list[str]
    # Pass as ``before`` for the next page; 0 when this was the last.
    next_before: int


class WorkloadsByTenant(View):
    """Every workload a tenant has submitted, oldest first; pages are read from the end."""

    def __init__(self) -> None:
        self.workloads: dict[str, list[str]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Workload.Submitted):
            self.workloads.setdefault(event.tenant_id, []).append(event.originator_id)

    def page(self, tenant_id: str, size: int, before: int = 0) -> Page:
        """Newest first. ``before`` counts from the oldest, so new work does not shift pages."""
        known = self.workloads.get(tenant_id, [])
        end = min(before, len(known)) if before else len(known)
        start = max(0, end - size)
        return Page(known[start:end][::-1], start)
