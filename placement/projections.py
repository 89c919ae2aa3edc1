"""What placement looks up, folded from events: free slots, who stands where, what is due.

Entries are plain JSON. Whatever is derived from them (the fit index, heaps) is not state: it is
built again by ``load``, and gives the same answers however it came about.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from chassis.application import View
from chassis.clock import SECOND
from placement.domain import lease as leases
from placement.domain.lease import Lease
from placement.domain.node import INVITED, QUARANTINED, READY, Node
from placement.fit import Index

# A node ends a lease at its expiry by itself; so long afterwards its report is still waited for
# before the slots are given away.
REPORT_GRACE_US = 15 * SECOND


class Slots(View):
    """Which slots there are and which lease has them. A slot is in one place at most."""

    def __init__(self) -> None:
        # node_id -> {"ready": bool, "models": {slot: model}}
        self.nodes: dict[str, dict[str, Any]] = {}
        # lease_id -> {"node": node_id, "slots": [...], "bound": bool}
        self.places: dict[str, dict[str, Any]] = {}
        self._taken: dict[str, set[int]] = {}
        # GPUs in holds and in leases.
        self.held_count = 0
        self.leased_count = 0
        self.index = Index()

    def apply(self, event: Any) -> None:
        match event:
            case Lease.Held():
                self._occupy(event.originator_id, event.node_id, event.slots, bound=False)
            case Lease.Bound():
                self._vacate(event.originator_id)
                self._occupy(event.originator_id, event.node_id, event.slots, bound=True)
            case Lease.Lapsed() | Lease.BindRefused() | Lease.Ended():
                self._vacate(event.originator_id)
            case Node.Joined():
                models = {str(gpu["index"]): gpu["model"] for gpu in event.gpus}
                self.nodes[event.originator_id] = {"ready": True, "models": models}
                self._offer(event.originator_id)
            case Node.Quarantined() if event.originator_id in self.nodes:
                self.nodes[event.originator_id]["ready"] = False
                self.index.remove(event.originator_id)

    def state(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "places": self.places}

    def load(self, state: dict[str, Any]) -> None:
        self.nodes, self.places = state["nodes"], state["places"]
        self._taken, self.index = {}, Index()
        self.held_count = self.leased_count = 0
        for place in self.places.values():
            self._taken.setdefault(place["node"], set()).update(place["slots"])
            self._count(place, 1)
        for node_id, node in self.nodes.items():
            if node["ready"]:
                self._offer(node_id)

    def is_ready(self, node_id: str) -> bool:
        return node_id in self.nodes and bool(self.nodes[node_id]["ready"])

    def in_use(self, node_id: str) -> set[int]:
        return self._taken.get(node_id, set())

    def free_count(self, node_id: str) -> int:
        if not self.is_ready(node_id):
            return 0
        models = self.nodes[node_id]["models"]
        return sum(int(slot) not in self.in_use(node_id) for slot in models)

    def _occupy(self, lease_id: str, node_id: str, slots: list[int], *, bound: bool) -> None:
        place = {"node": node_id, "slots": slots, "bound": bound}
        self.places[lease_id] = place
        self._count(place, 1)
        self._taken.setdefault(node_id, set()).update(slots)
        self.index.take(node_id, slots)

    def _vacate(self, lease_id: str) -> None:
        place = self.places.pop(lease_id, None)
        if place is not None:
            self._count(place, -1)
            self._taken[place["node"]].difference_update(place["slots"])
            self.index.give(place["node"], place["slots"])

    def _count(self, place: dict[str, Any], sign: int) -> None:
        if place["bound"]:
            self.leased_count += sign * len(place["slots"])
        else:
            self.held_count += sign * len(place["slots"])

    def _offer(self, node_id: str) -> None:
        models = {int(slot): model for slot, model in self.nodes[node_id]["models"].items()}
        self.index.put(node_id, models, self.in_use(node_id))


class Assignments(View):
    """What each node should have, and a revision that changes whenever that does."""

    def __init__(self) -> None:
        # node_id -> {"revision": int, "leases": {lease_id: revision at which it was bound}}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.node_of: dict[str, str] = {}
        # Fencing tokens are given out in order, over all nodes.
        self.token_last = 0
        self.changed: Callable[[str], None] = lambda node_id: None

    def apply(self, event: Any) -> None:
        lease_id = event.originator_id
        match event:
            case Lease.Bound():
                self.token_last = event.fencing_token
                self.node_of[lease_id] = event.node_id
                node = self.nodes.setdefault(event.node_id, {"revision": 0, "leases": {}})
                node["leases"][lease_id] = node["revision"] + 1
                self._bump(event.node_id)
            case Lease.Renewed() | Lease.Constrained() | Lease.DrainRequested():
                self._bump(self.node_of[lease_id])
            case Lease.Ended() if lease_id in self.node_of:
                node_id = self.node_of.pop(lease_id)
                del self.nodes[node_id]["leases"][lease_id]
                self._bump(node_id)

    def state(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "node_of": self.node_of, "token_last": self.token_last}

    def revision(self, node_id: str) -> int:
        return int(self.nodes[node_id]["revision"]) if node_id in self.nodes else 0

    def leases(self, node_id: str) -> dict[str, int]:
        return self.nodes[node_id]["leases"] if node_id in self.nodes else {}

    def _bump(self, node_id: str) -> None:
        self.nodes[node_id]["revision"] += 1
        self.changed(node_id)


class LeasesByTenant(View):
    """Lease ids in the order of their holds, per tenant; under "" those of everybody."""

    def __init__(self) -> None:
        self.ids: dict[str, list[str]] = {"": []}

    def apply(self, event: Any) -> None:
        if isinstance(event, Lease.Held):
            self.ids[""].append(event.originator_id)
            self.ids.setdefault(event.tenant_id, []).append(event.originator_id)


class LeaseStates(View):
    """How many leases are in which state."""

    # The state each event leads to; activating a draining lease leaves it draining.
    _AFTER = (
        (Lease.Held, leases.HELD),
        (Lease.Lapsed, leases.LAPSED),
        (Lease.BindRefused, leases.REFUSED),
        (Lease.Bound, leases.BOUND),
        (Lease.Activated, leases.ACTIVE),
        (Lease.DrainRequested, leases.DRAINING),
        (Lease.Ended, leases.ENDED),
    )

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        # Of those that can still change.
        self.states: dict[str, str] = {}

    def apply(self, event: Any) -> None:
        after = next((state for kind, state in self._AFTER if type(event) is kind), None)
        before = self.states.get(event.originator_id)
        if after is None or (after, before) == (leases.ACTIVE, leases.DRAINING):
            return
        if before is not None:
            self.counts[before] -= 1
        self.counts[after] = self.counts.get(after, 0) + 1
        if after in (leases.ENDED, leases.REFUSED):
            self.states.pop(event.originator_id, None)
        else:
            self.states[event.originator_id] = after


class Expiry(View):
    """When the clock ends a hold or a lease, if nothing else does before."""

    def __init__(self) -> None:
        self.due_at: dict[str, int] = {}
        # Entries that differ from ``due_at`` are out of date and dropped when met.
        self._heap: list[tuple[int, str]] = []

    def apply(self, event: Any) -> None:
        match event:
            case Lease.Held():
                self._set(event.originator_id, event.expires_at)
            case Lease.Bound() | Lease.Renewed():
                self._set(event.originator_id, event.expires_at + REPORT_GRACE_US)
            case Lease.Lapsed() | Lease.BindRefused() | Lease.Ended():
                self.due_at.pop(event.originator_id, None)

    def state(self) -> dict[str, Any]:
        return {"due_at": self.due_at}

    def load(self, state: dict[str, Any]) -> None:
        self.due_at = state["due_at"]
        self._heap = [(at, lease_id) for lease_id, at in self.due_at.items()]
        heapq.heapify(self._heap)

    def next_at(self) -> int | None:
        while self._heap and self._is_stale(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, at: int, count_max: int) -> list[str]:
        """The longest overdue first. They stay until an event says what became of them."""
        found: list[tuple[int, str]] = []
        while len(found) < count_max and (first := self.next_at()) is not None and first <= at:
            found.append(heapq.heappop(self._heap))
        for entry in found:
            heapq.heappush(self._heap, entry)
        return [lease_id for _, lease_id in found]

    def _set(self, lease_id: str, at: int) -> None:
        self.due_at[lease_id] = at
        heapq.heappush(self._heap, (at, lease_id))

    def _is_stale(self, entry: tuple[int, str]) -> bool:
        return self.due_at.get(entry[1]) != entry[0]


class Nodes(View):
    """Every node's status, whose token is whose, and who claims which GPU."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        # GPU uuid -> the nodes that showed it when they last joined.
        self.claims: dict[str, list[str]] = {}
        self.uuids: dict[str, list[str]] = {}

    def apply(self, event: Any) -> None:
        node_id = event.originator_id
        match event:
            case Node.TokenIssued():
                self.statuses[node_id] = INVITED
                self.tokens[event.token_sha256] = node_id
            case Node.TokenReissued():
                self.tokens[event.token_sha256] = node_id
            case Node.Joined():
                self.statuses[node_id] = READY
                self._claim(node_id, [gpu["uuid"] for gpu in event.gpus])
            case Node.Quarantined():
                self.statuses[node_id] = QUARANTINED

    def others_claiming(self, node_id: str, uuids: Iterable[str]) -> list[str]:
        found = {other for uuid in uuids for other in self.claims.get(uuid, ())}
        return sorted(found - {node_id})

    def counts(self) -> Counter[str]:
        return Counter(self.statuses.values())

    def _claim(self, node_id: str, uuids: list[str]) -> None:
        for uuid in self.uuids.get(node_id, ()):
            self.claims[uuid].remove(node_id)
            if not self.claims[uuid]:
                del self.claims[uuid]
        self.uuids[node_id] = uuids
        for uuid in uuids:
            self.claims.setdefault(uuid, []).append(node_id)
