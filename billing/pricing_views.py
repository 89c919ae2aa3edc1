"""Which lease has which share of which GPU, and how far commitments are settled."""

from fractions import Fraction
from typing import Any

from billing.domain import Account, Meter
from billing.domain.commitment import Commitment
from billing.money import HOUR_US
from billing.shares import Claim
from chassis.application import View
from chassis.clock import SECOND

# A claim that comes later than this after another's end is no longer held against it.
REMEMBERED_US = 7 * 24 * 3600 * SECOND


class Slots(View):
    """Claims by slot and lease as [from, until, n, d]; until 0 means that it has not ended."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, list[int]]] = {}
        # Open meters: where they claim.
        self.open: dict[str, list[str]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Meter.Opened):
            slots = [_slot(event.node_id, slot) for slot in vars(event).get("slots") or []]
            if slots:
                self.open[event.originator_id] = slots
            for slot in slots:
                claim = [event.activated_at, 0, event.share_n, event.share_d]
                claims = self._remembered(slot, event.timestamp)
                self.claims[slot] = claims | {event.originator_id: claim}
        elif isinstance(event, Meter.Closed):
            for slot in self.open.pop(event.originator_id, []):
                claim = self.claims[slot][event.originator_id]
                claim[1] = claim[0] + event.lease_us

    def _remembered(self, slot: str, at: int) -> dict[str, list[int]]:
        claims = self.claims.get(slot, {})
        return {
            meter: claim
            for meter, claim in claims.items()
            if not claim[1] or claim[1] > at - REMEMBERED_US
        }

    def claims_on(self, node_id: str, slot: int) -> list[Claim]:
        return [
            Claim(meter, from_, until, Fraction(n, d))
            for meter, (from_, until, n, d) in self.claims.get(_slot(node_id, slot), {}).items()
        ]


def _slot(node_id: str, slot: int) -> str:
    return f"{node_id}/{slot}"


class Commitments(View):
    """Commitments by id: their terms, and the hours of which something was used or not."""

    def __init__(self) -> None:
        self.opened: dict[str, dict[str, Any]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Commitment.Opened):
            names = (
                "tenant_id", "gpu_model", "gpu_count", "price_nanos", "per_gpu_us", "currency",
                "starts_at", "ends_at",
            )  # fmt: skip
            row = {name: getattr(event, name) for name in names}
            row |= {"commitment_id": event.originator_id, "settled_until": event.starts_at}
            row |= dict.fromkeys(_SUMS, 0)
            self.opened[event.originator_id] = row
        elif isinstance(event, Account.CommitmentSettled):
            row = self.opened[event.commitment_id]
            row["settled_until"] = event.hour + HOUR_US
            for name in _SUMS:
                row[name] += getattr(event, name)

    def due(self, at: int) -> list[tuple[str, int]]:
        """The next hour of each tenant that has passed."""
        hours: dict[str, int] = {}
        for row in self.opened.values():
            if row["settled_until"] < row["ends_at"] and row["settled_until"] + HOUR_US <= at:
                tenant_id = row["tenant_id"]
                hours[tenant_id] = min(row["settled_until"], hours.get(tenant_id, at))
        return sorted(hours.items())

    def of(self, tenant_id: str, hour: int) -> list[str]:
        """Those of a tenant that have this hour, in the order in which they are served."""
        return sorted(
            commitment_id
            for commitment_id, row in self.opened.items()
            if row["tenant_id"] == tenant_id and row["settled_until"] == hour < row["ends_at"]
        )


_SUMS = ("used_gpu_us", "unused_gpu_us", "used_nanos", "unused_nanos")
