"""Which lease used which node, and by UTC hour what it earned and what its node confirmed."""

from collections.abc import Iterable
from typing import Any

from billing.domain import Meter
from billing.money import HOUR_US
from billing.provider_cost import Use, spread
from chassis.application import View


class LeaseHours(View):
    """Which lease used which node when, and by UTC hour what it earned and its node confirmed.

    Every slice passes here, so a slice within one hour, as nearly all are, takes the short way.
    """

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, list[str]] = {}
        # Hour to "currency/tenant/lease/sku" to nano-units.
        self.earned: dict[str, dict[str, int]] = {}
        # Hour to lease to GPU-microseconds.
        self.metered: dict[str, dict[str, int]] = {}

    def apply(self, event: Any) -> None:
        kind = type(event)
        if kind is Meter.SliceRecorded:
            lease = self.leases[event.originator_id]
            from_at, until_at = lease["from_at"] + event.from_us, lease["from_at"] + event.until_us
            if event.confirmed:
                self._meter(lease, from_at, until_at)
            self._earn(event, lease["key"], from_at, until_at)
        elif kind is Meter.Confirmed:
            lease = self.leases[event.originator_id]
            self._meter(lease, *(lease["from_at"] + us for us in (event.from_us, event.until_us)))
        elif kind is Meter.Opened:
            self._open(event)
        else:
            if kind is Meter.Closed:
                lease = self.leases[event.originator_id]
                lease["until_at"] = lease["from_at"] + event.lease_us
            if vars(event).get("postings"):
                lease = self.leases.get(event.originator_id)
                self._earn(event, lease["key"] if lease else "", event.timestamp, event.timestamp)

    def _open(self, event: Any) -> None:
        names = ("lease_id", "tenant_id", "node_id", "gpu_model", "gpu_count")
        lease = {name: getattr(event, name) for name in names}
        # Leases recorded before GPUs were shared have them whole.
        lease |= {name: vars(event).get(name, 1) for name in ("share_n", "share_d")}
        key = f"{event.currency}/{event.tenant_id}/{event.lease_id}/{event.gpu_model}"
        lease |= {"from_at": event.activated_at, "until_at": 0, "key": key}
        self.leases[event.originator_id] = lease
        self.nodes.setdefault(event.node_id, []).append(event.originator_id)

    def _meter(self, lease: dict[str, Any], from_at: int, until_at: int) -> None:
        gpu_us = lease["gpu_count"] * lease["share_n"] * (until_at - from_at) // lease["share_d"]
        _add(self.metered, lease["lease_id"], gpu_us, from_at, until_at)

    def _earn(self, event: Any, key: str, from_at: int, until_at: int) -> None:
        """What is income, less the credits given for it, where it was earned."""
        for posting in event.postings:
            account: str = posting["account"]
            if account.startswith(("income:", "expense:sla_credit")):
                sku = account.split(":", 2)[2] if account.count(":") > 1 else ""
                key = key or f"{event.currency}/{event.tenant_id}//{sku}"
                _add(self.earned, key, -posting["amount_nanos"], from_at, until_at)

    def uses(self, nodes: Iterable[str]) -> list[Use]:
        return [
            Use(
                lease["lease_id"],
                lease["tenant_id"],
                lease["gpu_count"],
                lease["from_at"],
                lease["until_at"],
                lease["share_n"],
                lease["share_d"],
            )
            for node in nodes
            for lease in map(self.leases.__getitem__, self.nodes.get(node, []))
        ]


def _add(
    hours: dict[str, dict[str, int]], key: str, amount: int, from_at: int, until_at: int
) -> None:
    first = from_at // HOUR_US
    if first == (until_at - 1) // HOUR_US:
        row = hours.setdefault(str(first), {})
        row[key] = row.get(key, 0) + amount
        return
    for hour, part in spread(amount, from_at, until_at, HOUR_US):
        row = hours.setdefault(str(hour), {})
        row[key] = row.get(key, 0) + part
