"""How far every service has written: what a refused request must leave exactly as it was.

A head may only be compared when the platform is at rest; otherwise an earlier story that is
still being told looks like an effect of the request.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from chassis.store import Store
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import SERVICES
from tests.waiting import wait_for

Positions = dict[str, int]

# Who reacts to whom.
FOLLOWED = {
    "admission": ("gateway", "placement"),
    "placement": ("admission", "billing", "enforcement"),
    "enforcement": ("placement",),
    "billing": ("aggregator", "enforcement", "gateway", "placement"),
}
# What billing writes because time passes, whatever anybody asks of it.
BY_THE_CLOCK = {
    "billing.log_tree.head_signed",
    "billing.period.opened",
    "billing.period.closed",
    "billing.provider_meter.accrued",
}


class Heads:
    def __init__(self, platform: Platform) -> None:
        url = platform.addresses()["postgres_url"]
        self.stores = {service: Store(url, service) for service in SERVICES}
        self._nodes = platform.state / "nodes"

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def positions(self) -> Positions:
        return {service: store.head().position for service, store in self.stores.items()}

    def at_rest(self) -> Positions:
        """The positions, once everybody has heard all that the others had to say."""
        return wait_for(self._if_at_rest, seconds=30, what="nobody has anything to say")

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        before = self.at_rest()
        yield
        written = [
            f"{service}/{event.position} {event.topic} of {event.aggregate_id}"
            for service, store in self.stores.items()
            for event in store.read(before[service], 100)
            if event.topic not in BY_THE_CLOCK
        ]
        assert not written, f"something happened: {', '.join(written)}"

    def _if_at_rest(self) -> Positions | None:
        # A node keeps the folder of a job until its end and its last slice are known elsewhere.
        if any(self._nodes.glob("*/jobs/*")):
            return None
        before = self.positions()
        for service, sources in FOLLOWED.items():
            for source in sources:
                cursor = self.stores[service].cursor(source)
                if (cursor.position if cursor else 0) != before[source]:
                    return None
        return before if self.positions() == before else None
