"""The admission rules. Pure: facts in, verdict out; no clock, no IO, no state.

Tenants see the first rule a request breaks, so the order of the rules is part of the API.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum

from admission.intents import Problem, Request, is_model, is_name

QUOTA_MAX = 1_000_000


class State(StrEnum):
    QUEUED = "QUEUED"
    ADMITTED = "ADMITTED"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class PendingReason(StrEnum):
    """Why a workload waits, most fundamental first."""

    NEVER_FITS = "NEVER_FITS"
    ENVELOPE = "ENVELOPE"
    BUDGET = "BUDGET"
    QUOTA = "QUOTA"
    CAPACITY = "CAPACITY"
    PRIORITY = "PRIORITY"
    HELD = "HELD"


class Step(StrEnum):
    """What can happen to a workload after it was submitted."""

    DEFER = "defer"
    ADMIT = "admit"
    REQUEUE = "requeue"
    START = "start"
    STOP = "stop"
    END = "end"


# A lease runs on while its workload is stopping, so it may still be reported as started.
_STEPS: dict[State, frozenset[Step]] = {
    State.QUEUED: frozenset({Step.DEFER, Step.ADMIT, Step.REQUEUE, Step.STOP}),
    State.ADMITTED: frozenset({Step.REQUEUE, Step.START, Step.STOP, Step.END}),
    State.RUNNING: frozenset({Step.STOP, Step.END}),
    State.STOPPING: frozenset({Step.REQUEUE, Step.START, Step.END}),
}

# How a lease's end looks to the author. What is not named here failed.
_STOPPED_BY = frozenset({"STOPPED", "LIMIT", "BALANCE"})


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a tenant may hold, and what it holds now."""

    gpu_quota: Mapping[str, int]
    traits: Set[str] = frozenset()
    suspended: bool = False
    held: Mapping[str, int] = field(default_factory=dict)

    def quota(self, model: str) -> int:
        return self.gpu_quota.get(model, 0)

    def free(self, model: str) -> int:
        """GPUs of the quota that are not in use; never negative, also after it was cut."""
        return max(0, self.quota(model) - self.held.get(model, 0))

    def after(self, request: Request) -> Allowance:
        """What remains once the request is admitted too."""
        held = self.held.get(request.gpu_model, 0) + request.gpu_count
        return replace(self, held={**self.held, request.gpu_model: held})


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a workload may not be admitted now, with the numbers behind it."""

    reason: PendingReason
    detail: str


BEHIND = Denial(PendingReason.PRIORITY, "waiting for its turn")


def may(state: str, step: Step) -> bool:
    return step in _STEPS.get(State(state), ())


def outcome(cause: str, exit_code: int) -> State:
    if cause == "EXITED":
        return State.FAILED if exit_code else State.SUCCEEDED
    return State.STOPPED if cause in _STOPPED_BY else State.FAILED


def lease_id(workload_id: str, attempt: int) -> str:
    """Derived: asking again after a crash repeats the same ids and gets the same answers."""
    return f"lse_{workload_id.removeprefix('wl_')}_{attempt}"


def workload_id(lease_id: str) -> str:
    return f"wl_{lease_id.removeprefix('lse_').rpartition('_')[0]}"


def extends(earlier: Request, later: Request) -> bool:
    """Whether holds for both may be asked for at once, the later one behind the earlier.

    It asks for no less of anything, so whoever refuses the earlier refuses the later, too, and
    nobody passes.
    """
    return (
        later.gpu_model == earlier.gpu_model
        and later.gpu_count >= earlier.gpu_count
        and later.seconds_max >= earlier.seconds_max
    )


def submission_problem(request: Request, allowance: Allowance) -> Problem | None:
    """Why this tenant can never run it as things stand: refused now rather than queued forever."""
    model, quota = request.gpu_model, allowance.quota(request.gpu_model)
    for trait in request.traits:
        if trait not in allowance.traits:
            return Problem("UNGRANTED_TRAIT", f"trait {trait!r} is not granted", "traits")
    if allowance.suspended:
        return Problem("TENANT_SUSPENDED", "the tenant is suspended")
    if not quota:
        entitled = ", ".join(sorted(allowance.gpu_quota)) or "none"
        message = f"no quota for {model}; entitled: {entitled}"
        return Problem("NOT_ENTITLED", message, "training_job.gpu_model")
    if request.gpu_count > quota:
        numbers = {"requested": request.gpu_count, "quota": quota, "nearest": quota}
        message = _too_large(request, quota)
        return Problem("NEVER_FITS", message, "training_job.gpu_count", numbers)
    return None


def denial(request: Request, allowance: Allowance) -> Denial | None:
    """The first rule that keeps a queued request from being admitted, or None."""
    model, quota = request.gpu_model, allowance.quota(request.gpu_model)
    if 0 < quota < request.gpu_count:
        return Denial(PendingReason.NEVER_FITS, _too_large(request, quota))
    if allowance.suspended:
        return Denial(PendingReason.ENVELOPE, "the tenant is suspended")
    if not quota:
        return Denial(PendingReason.ENVELOPE, f"the envelope has no quota for {model}")
    if missing := set(request.traits) - set(allowance.traits):
        return Denial(PendingReason.ENVELOPE, f"trait {min(missing)!r} is not granted")
    if request.gpu_count > allowance.free(model):
        used = f"{allowance.held.get(model, 0)} of {quota} {model} are in use"
        return Denial(PendingReason.QUOTA, f"{request.gpu_count} {model} asked, {used}")
    return None


def remedies(reason: PendingReason, request: Request, allowance: Allowance) -> list[str]:
    """What would let a waiting workload start."""
    model = request.gpu_model
    quota, free = allowance.quota(model), allowance.free(model)
    match reason:
        case PendingReason.NEVER_FITS:
            raised = f"have the quota raised to {request.gpu_count} {model}"
            return [f"ask for at most {quota} {model}", raised]
        case PendingReason.ENVELOPE:
            return ["have the envelope changed or the tenant resumed by an operator"]
        case PendingReason.BUDGET:
            return ["top up the balance", "ask for fewer GPUs or less time"]
        case PendingReason.QUOTA:
            smaller = [f"with {free} {model} it would be within the quota now"] if free else []
            return [*smaller, f"stop {model} workloads of yours", "have the quota raised"]
        case PendingReason.CAPACITY:
            return ["wait until leases end or nodes join", "ask for fewer GPUs"]
        case PendingReason.PRIORITY:
            return ["nothing: it is considered when its turn comes"]
        case PendingReason.HELD:
            return ["nothing: it is tried again every second"]


def envelope_problem(gpu_quota: Mapping[str, int], tier: str, traits: list[str]) -> Problem | None:
    for model, quota in sorted(gpu_quota.items()):
        if not is_model(model) or not 0 <= quota <= QUOTA_MAX:
            message = f"a quota is a model and a number from 0 to {QUOTA_MAX}"
            return Problem("QUOTA", message, f"gpu_quota.{model[:40]}")
    if not is_name(tier):
        return Problem("TIER", "tier must be a name, such as standard", "tier")
    if len(set(traits)) < len(traits) or not all(map(is_name, traits)):
        return Problem("TRAITS", "traits must be different names", "traits")
    return None


def _too_large(request: Request, quota: int) -> str:
    model = request.gpu_model
    return f"{request.gpu_count} {model} asked, the quota is {quota}; at most {quota} {model} fit"
