"""The rules of a node: what to start, what to change, what to refuse.

Pure: facts in, decisions out. Deadlines are microseconds since boot.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from chassis.clock import SECOND

# There is no exit code to tell.
NO_EXIT_CODE = -1
# A stop that nobody gave a grace for.
GRACE_US = 5 * SECOND
# Deadlines move a little with every answer; smaller extensions are not worth a write.
EXTENSION_US_MIN = SECOND


class JobState(StrEnum):
    """PREPARED: nothing of the tenant has run. RUNNING: it may run now. EXITED: it has ended."""

    PREPARED = "prepared"
    RUNNING = "running"
    EXITED = "exited"


class Refusal(StrEnum):
    """Why an assignment was not started, most fundamental first."""

    FENCED = "FENCED"
    NO_SUCH_GPU = "NO_SUCH_GPU"
    MANIFEST = "MANIFEST"


@dataclass(frozen=True)
class Desired:
    """What the supervisor of a job is asked for. ``stop`` is never taken back."""

    deadline_us: int
    stop: bool = False
    stop_cause: str = ""
    grace_us: int = 0
    constraint: str = ""


@dataclass(frozen=True)
class Program:
    """What the manifest says to run."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    seconds_max: int


@dataclass(frozen=True)
class Assignment:
    lease_id: str
    fencing_token: int
    slots: tuple[int, ...]
    desired: Desired
    # None if the manifest cannot be understood; ``fault`` then says why.
    program: Program | None
    tenant_id: str = ""
    correlation_id: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Job:
    """A lease as the node has it."""

    lease_id: str
    fencing_token: int
    slots: tuple[int, ...]
    state: JobState
    desired: Desired


@dataclass(frozen=True)
class Run(Job):
    """A job and how its run goes."""

    boot_id: str = ""
    # From the start of the program to now, or to its exit.
    run_us: int = 0
    # As far as the program is known to have run; all of it once it exited. Slices end here.
    proven_us: int = 0
    # The program has begun, and its supervisor has said so.
    begun: bool = False
    exit_code: int = 0
    cause: str = ""
    error: str = ""


@dataclass(frozen=True)
class Start:
    assignment: Assignment


@dataclass(frozen=True)
class Change:
    lease_id: str
    desired: Desired


@dataclass(frozen=True)
class Abandon:
    """End a job of which nothing has run."""

    lease_id: str


@dataclass(frozen=True)
class Refuse:
    assignment: Assignment
    refusal: Refusal
    detail: str


@dataclass(frozen=True)
class Skip:
    """A lease that should stop and that the node never had."""

    assignment: Assignment


Action = Start | Change | Abandon | Refuse | Skip


def plan(
    assignments: Iterable[Assignment],
    jobs: Iterable[Job],
    fences: Mapping[int, int],
    gpus: Collection[int],
) -> list[Action]:
    """What to do so that the node has what it should have, and nothing else.

    ``fences`` holds the highest fencing token seen per slot and ``gpus`` the slots there are.
    A lease that ended is never started again; a slot is given on only after its job has ended.
    """
    wanted = {assignment.lease_id: assignment for assignment in assignments}
    known = {job.lease_id: job for job in jobs}
    taken = {s for job in known.values() if job.state is JobState.RUNNING for s in job.slots}
    tokens = dict(fences)
    actions = _for_jobs(wanted, known, taken, tokens)
    # The highest token first, so that of two claims to a slot the older one is refused.
    for assignment in sorted(wanted.values(), key=lambda a: -a.fencing_token):
        if assignment.lease_id in known:
            continue
        if assignment.desired.stop:
            actions.append(Skip(assignment))
        elif refusal := _refusal(assignment, tokens, gpus):
            actions.append(refusal)
        else:
            tokens.update(dict.fromkeys(assignment.slots, assignment.fencing_token))
            if taken.isdisjoint(assignment.slots):
                taken.update(assignment.slots)
                actions.append(Start(assignment))
    return actions


def _for_jobs(
    wanted: Mapping[str, Assignment],
    known: Mapping[str, Job],
    taken: set[int],
    tokens: Mapping[int, int],
) -> list[Action]:
    actions: list[Action] = []
    for job in known.values():
        if job.state is JobState.EXITED:
            continue
        assignment = wanted.get(job.lease_id)
        desired = next_desired(job, assignment)
        if job.state is JobState.RUNNING:
            if desired != job.desired:
                actions.append(Change(job.lease_id, desired))
        elif desired.stop or assignment is None or _highest(tokens, job.slots) > job.fencing_token:
            actions.append(Abandon(job.lease_id))
        elif taken.isdisjoint(job.slots):
            taken.update(job.slots)
            actions.append(Start(assignment))
    return actions


def next_desired(job: Job, assignment: Assignment | None) -> Desired:
    """What to ask of a job's supervisor, given what the control plane wants of the lease."""
    if assignment is None or assignment.fencing_token != job.fencing_token:
        if job.desired.stop:
            return job.desired
        return replace(job.desired, stop=True, stop_cause="UNASSIGNED", grace_us=GRACE_US)
    # The expiry of a lease only ever moves on, and every answer understates it a little, so the
    # latest deadline heard is the closest to the truth.
    later = assignment.desired.deadline_us - job.desired.deadline_us >= EXTENSION_US_MIN
    deadline_us = assignment.desired.deadline_us if later else job.desired.deadline_us
    if job.desired.stop:
        return replace(job.desired, deadline_us=deadline_us)
    return replace(assignment.desired, deadline_us=deadline_us)


def _refusal(
    assignment: Assignment, tokens: Mapping[int, int], gpus: Collection[int]
) -> Refuse | None:
    highest = _highest(tokens, assignment.slots)
    if assignment.fencing_token < highest:
        detail = f"token {assignment.fencing_token} is older than {highest}, seen for its GPUs"
        return Refuse(assignment, Refusal.FENCED, detail)
    missing = [slot for slot in assignment.slots if slot not in gpus]
    if missing or not assignment.slots:
        return Refuse(assignment, Refusal.NO_SUCH_GPU, f"the node has no GPU {missing}")
    if assignment.program is None:
        return Refuse(assignment, Refusal.MANIFEST, assignment.fault)
    return None


def _highest(tokens: Mapping[int, int], slots: Iterable[int]) -> int:
    return max((tokens.get(slot, 0) for slot in slots), default=0)
