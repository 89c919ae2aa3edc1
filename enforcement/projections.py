"""What enforcement looks up: the guard of a slot, and the guards that stand."""

from typing import Any

from chassis.application import View
from enforcement.domain import Guard


class Watch(View):
    """Guards that stand, and by node and slot the guard that watches it."""

    def __init__(self) -> None:
        self.guards: dict[str, dict[str, Any]] = {}
        self.by_slot: dict[str, str] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Guard.Raised):
            self.guards[event.originator_id] = {"node_id": event.node_id, "slots": event.slots}
            for slot in event.slots:
                self.by_slot[_place(event.node_id, slot)] = event.originator_id
        elif isinstance(event, Guard.Lowered):
            guard = self.guards.pop(event.originator_id)
            for slot in guard["slots"]:
                if self.by_slot.get(_place(guard["node_id"], slot)) == event.originator_id:
                    del self.by_slot[_place(guard["node_id"], slot)]

    def guard_of(self, node_id: str, slot: int) -> str | None:
        return self.by_slot.get(_place(node_id, slot))


def _place(node_id: str, slot: int) -> str:
    return f"{node_id}/{slot}"
