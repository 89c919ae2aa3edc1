"""What a provider's answers mean, and what its inventory says about ours. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

TAG_PREFIX = "leasehold-"

ATTEMPTS_MAX = 5
# A VM that was just asked for may be missing from the provider's list for a while.
SETTLING_SECONDS = 60
BACKOFF_SECONDS = (0, 1, 2, 4, 8)
RETRY_AFTER_SECONDS_MAX = 300


@dataclass(frozen=True)
class Offer:
    offer: str
    gpu_model: str
    gpu_count: int
    price_nanos_per_hour: int
    currency: str
    available: bool


@dataclass(frozen=True)
class Machine:
    """One VM as a provider lists it."""

    provider_id: str
    tag: str
    # running, starting, stopping or unknown.
    status: str
    price_nanos_per_hour: int
    currency: str
    # "" and 0 when the provider does not say.
    gpu_model: str = ""
    gpu_count: int = 0


@dataclass(frozen=True)
class Inventory:
    machines: tuple[Machine, ...]
    complete: bool


@dataclass(frozen=True)
class Held:
    """One instance as we remember it."""

    instance_id: str
    tag: str
    provider_id: str
    requested_at: int


class OrphanKind(StrEnum):
    ORPHAN_VM = "ORPHAN_VM"
    MISSING_VM = "MISSING_VM"


@dataclass(frozen=True)
class Orphan:
    provider_id: str
    kind: OrphanKind
    tag: str
    price_nanos_per_hour: int
    currency: str = ""


def tag_of(instance_id: str) -> str:
    return f"{TAG_PREFIX}{instance_id}"


def no_conclusion(inventory: Inventory, held: Iterable[Held]) -> str:
    """Why an inventory proves nothing, or "" if it can be compared with ours.

    A partial list makes everything look gone, and so does an empty one; neither is evidence.
    """
    if not inventory.complete:
        return "the provider's list is partial"
    if not inventory.machines and any(held):
        return "the provider lists nothing although it runs instances for us"
    return ""


def orphans(inventory: Inventory, held: Iterable[Held], *, at: int) -> list[Orphan]:
    """VMs of ours that nobody rents, and instances whose VM is gone; in the order of their ids."""
    known = {one.tag: one for one in held}
    listed = {machine.tag for machine in inventory.machines}
    extra = [
        Orphan(m.provider_id, OrphanKind.ORPHAN_VM, m.tag, m.price_nanos_per_hour, m.currency)
        for m in inventory.machines
        if m.tag.startswith(TAG_PREFIX)
        and (m.tag not in known or known[m.tag].provider_id not in ("", m.provider_id))
    ]
    missing = [
        Orphan(one.provider_id, OrphanKind.MISSING_VM, tag, 0)
        for tag, one in known.items()
        if one.provider_id and tag not in listed and _settled(one, at)
    ]
    return sorted(extra + missing, key=lambda orphan: (orphan.kind, orphan.provider_id))


def backoff_seconds(attempts: int, retry_after: int = 0) -> int:
    """How long to wait before the next attempt; a provider's own wish wins, within reason."""
    if retry_after:
        return max(1, min(retry_after, RETRY_AFTER_SECONDS_MAX))
    return BACKOFF_SECONDS[min(attempts, len(BACKOFF_SECONDS) - 1)]


def _settled(held: Held, at: int) -> bool:
    return at - held.requested_at > SETTLING_SECONDS * 1_000_000
