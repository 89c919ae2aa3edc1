"""The rules of leases and nodes. Pure: facts in, decisions out; times are microseconds UTC.

The control plane stamps the edges of a lease and a node reports only how long a program ran.
``start`` and ``end`` turn the two into the billable interval; whoever changes them changes
invoices.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chassis.clock import SECOND

# What a program gets between being asked to stop and being killed.
DRAIN_GRACE_US = 10 * SECOND
# Room beyond a program's own time limit for starting and stopping it.
LIMIT_SLACK_US = 60 * SECOND
# A node that has not spoken for so long gets no new leases.
SILENCE_US = 45 * SECOND
# A node's wall clock may differ from ours by so much before it is flagged.
SKEW_US_MAX = 2 * SECOND

GPUS_PER_NODE_MAX = 64
DETAIL_CHARACTERS_MAX = 500


@dataclass(frozen=True)
class Terms:
    """How long things last."""

    hold_us: int = 60 * SECOND
    lease_us: int = 600 * SECOND


class HoldRefusal(StrEnum):
    """Why no hold was placed, most fundamental first."""

    NEVER_FITS = "NEVER_FITS"
    LAPSED = "LAPSED"
    CAPACITY = "CAPACITY"


@dataclass(frozen=True)
class HoldRequest:
    lease_id: str
    tenant_id: str
    workload_id: str
    gpu_model: str
    gpu_count: int
    correlation_id: str
    causation_id: str = ""


@dataclass(frozen=True)
class HoldResult:
    lease_id: str
    refusal: HoldRefusal | None = None
    detail: str = ""
    expires_at: int = 0


@dataclass(frozen=True)
class Release:
    """A rendered intent, frozen: canonical JSON, its hash, and what the lease needs of it."""

    project: str
    env: str
    manifest: str
    sha256: str
    type_version: str
    seconds_max: int


class RunState(StrEnum):
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    START_FAILED = "START_FAILED"


@dataclass(frozen=True)
class RunStatus:
    """What a node says of one lease; ``run_us`` is measured on its monotonic clock."""

    lease_id: str
    fencing_token: int
    state: RunState
    run_us: int
    exit_code: int = 0
    cause: str = ""
    error: str = ""


class EndCause(StrEnum):
    EXITED = "EXITED"
    STOPPED = "STOPPED"
    LIMIT = "LIMIT"
    EXPIRED = "EXPIRED"
    NODE_LOST = "NODE_LOST"
    START_FAILED = "START_FAILED"
    BALANCE = "BALANCE"


# What a node may say about why it ended a program; anything else counts as its own exit.
_NODE_CAUSES = {EndCause.STOPPED, EndCause.LIMIT, EndCause.EXPIRED, EndCause.NODE_LOST}


@dataclass(frozen=True)
class End:
    ended_at: int
    # The node's duration was outside what the control plane saw.
    clamped: bool


def start(*, bound_at: int, delivered_at: int, run_us: int, at: int) -> int:
    """When the billable interval begins, told at ``at`` that the program has run ``run_us``.

    It is the last instant at which the node cannot have started yet: when its assignment was
    handed over, or when the lease was bound if that is not known. The true start is later by
    milliseconds; an earlier one leaves room for every honest duration, however late the first
    report came and however early the last one.
    """
    return max(bound_at, min(delivered_at or bound_at, at - run_us))


def end(*, activated_at: int, run_us: int, expires_at: int, at: int) -> End:
    """When it ends: after what the node measured, within what the control plane knows."""
    claimed = activated_at + run_us
    ended_at = max(activated_at, min(claimed, at, expires_at))
    return End(ended_at, clamped=ended_at != claimed)


def end_cause(reported: RunStatus, drain_cause: str) -> EndCause:
    if reported.state is RunState.START_FAILED:
        return EndCause.START_FAILED
    if reported.cause == EndCause.STOPPED and drain_cause:
        return EndCause(drain_cause)
    known = {cause.value: cause for cause in _NODE_CAUSES}
    return known.get(reported.cause, EndCause.EXITED)


def loss_cause(*, activated_at: int, node_silent: bool) -> EndCause:
    """Why a lease ends whose expiry passed without a word from its node."""
    if not activated_at:
        return EndCause.START_FAILED
    return EndCause.NODE_LOST if node_silent else EndCause.EXPIRED


def renewal(
    *, expires_at: int, activated_at: int, seconds_max: int, lease_us: int, at: int
) -> int | None:
    """The new expiry, or None while half of the term is left or nothing would be gained.

    A program with a time limit needs no lease beyond it.
    """
    if expires_at - at >= lease_us // 2:
        return None
    renewed = at + lease_us
    if seconds_max:
        renewed = min(renewed, activated_at + seconds_max * SECOND + LIMIT_SLACK_US)
    return renewed if renewed > expires_at else None


@dataclass(frozen=True)
class Order:
    """One lease as its node should have it."""

    lease_id: str
    tenant_id: str
    correlation_id: str
    fencing_token: int
    slots: tuple[int, ...]
    manifest: str
    run: bool
    grace_us: int
    expires_at: int
    constraint: str
    stop_cause: str


@dataclass(frozen=True)
class Orders:
    """Everything a node should have, and which of its reports are recorded."""

    revision: int
    orders: tuple[Order, ...]
    settled: tuple[str, ...]
    at: int


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    model: str
    name: str
    memory_bytes: int
    pci_bus_id: str


@dataclass(frozen=True)
class Evidence:
    """What a node shows to join."""

    hostname: str
    boot_id: str
    driver_version: str
    simulated: bool
    gpus: tuple[Gpu, ...]
    key_sha256: str


class JoinRefusal(StrEnum):
    """Why a node may not join, most fundamental first; the token's flaws come before these."""

    NO_GPUS = "NO_GPUS"
    TOO_MANY_GPUS = "TOO_MANY_GPUS"
    GPU_UNREADABLE = "GPU_UNREADABLE"
    GPU_TWICE = "GPU_TWICE"
    SIMULATED = "SIMULATED"


def join_refusal(evidence: Evidence, *, allow_simulated: bool) -> JoinRefusal | None:
    gpus = evidence.gpus
    if not gpus:
        return JoinRefusal.NO_GPUS
    if len(gpus) > GPUS_PER_NODE_MAX:
        return JoinRefusal.TOO_MANY_GPUS
    if not all(g.uuid and g.model and 0 <= g.index < GPUS_PER_NODE_MAX for g in gpus):
        return JoinRefusal.GPU_UNREADABLE
    if len({g.uuid for g in gpus}) < len(gpus) or len({g.index for g in gpus}) < len(gpus):
        return JoinRefusal.GPU_TWICE
    if evidence.simulated and not allow_simulated:
        return JoinRefusal.SIMULATED
    return None


class QuarantineCause(StrEnum):
    GPU_CLAIMED_TWICE = "GPU_CLAIMED_TWICE"
    EVIDENCE_CHANGED = "EVIDENCE_CHANGED"


def evidence_changed(
    before: Mapping[int, str], after: Mapping[int, str], in_use: Collection[int]
) -> bool:
    """Whether a slot that is leased has another GPU (by uuid) in it than when it was leased."""
    return any(before.get(slot) != after.get(slot) for slot in in_use)
