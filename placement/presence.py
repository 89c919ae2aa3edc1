"""What placement remembers of nodes without recording it: who spoke when, and what was heard.

A node speaks every few seconds and that is no decision, so it is no event. A restart forgets all
of this, and nothing may depend on it but convenience: silent nodes get no new leases, a lost
lease ends where its node was last heard, a start is stamped as late as it can be.
"""

from collections import OrderedDict
from collections.abc import Iterable

from placement.policy import SILENCE_US


class Presence:
    def __init__(self) -> None:
        self.seen_at: dict[str, int] = {}
        self.silent: set[str] = set()
        # By node, the longest silent first: the clock looks only at the front.
        self._since: OrderedDict[str, int] = OrderedDict()
        self._run_us: dict[str, int] = {}
        self._delivered_at: dict[str, int] = {}

    def expect(self, node_ids: Iterable[str], *, at: int) -> None:
        """Begin to wait for nodes that this process has not heard yet."""
        for node_id in node_ids:
            self._since.setdefault(node_id, at)

    def hear(self, node_id: str, *, at: int) -> bool:
        """Take note that a node spoke; True if it had been silent."""
        self.seen_at[node_id] = at
        self._since[node_id] = at
        self._since.move_to_end(node_id)
        was_silent = node_id in self.silent
        self.silent.discard(node_id)
        return was_silent

    def next_at(self) -> int | None:
        """When the next node becomes silent, if it does not speak."""
        first = next(iter(self._since.values()), None)
        return None if first is None else first + SILENCE_US

    def fall_silent(self, *, at: int) -> list[str]:
        """The nodes that have now been quiet for too long."""
        found = []
        while (due := self.next_at()) is not None and due <= at:
            node_id, _ = self._since.popitem(last=False)
            self.silent.add(node_id)
            found.append(node_id)
        return found

    def confirm(self, lease_id: str, run_us: int) -> None:
        self._run_us[lease_id] = max(run_us, self._run_us.get(lease_id, 0))

    def run_us(self, lease_id: str) -> int:
        return self._run_us.get(lease_id, 0)

    def deliver(self, lease_id: str, *, at: int) -> None:
        """A lease is being handed to a node that does not have it."""
        self._delivered_at[lease_id] = at

    def delivered_at(self, lease_id: str) -> int:
        """0 if this process did not hand it over."""
        return self._delivered_at.get(lease_id, 0)

    def forget(self, lease_id: str) -> None:
        self._run_us.pop(lease_id, None)
        self._delivered_at.pop(lease_id, None)
