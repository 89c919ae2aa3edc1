"""What a node starts, changes and refuses; how run time becomes slices."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.clock import SECOND
from node_agent.metering import Meter, Slice
from node_agent.policy import (
    Abandon,
    Action,
    Assignment,
    Change,
    Desired,
    Job,
    JobState,
    Program,
    Refusal,
    Refuse,
    Skip,
    Start,
    plan,
)

GPUS = range(4)
UNTIL_TEN = Desired(10 * SECOND)
LEASES = [f"lse_{number}" for number in range(5)]


# One row per rule, in the order in which they apply.
@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"fencing_token": 4, "slots": (1, 9), "program": None}, Refusal.FENCED),  # breaks all
        ({"slots": (1, 9), "program": None}, Refusal.NO_SUCH_GPU),
        ({"slots": ()}, Refusal.NO_SUCH_GPU),
        ({"program": None}, Refusal.MANIFEST),
        ({}, None),
        ({"fencing_token": 4, "slots": (2,)}, None),  # the newer token was seen for another GPU
    ],
)
def test_the_first_broken_rule_is_named(
    changes: dict[str, object], refusal: Refusal | None
) -> None:
    assignment = replace(assigned("lse_1", token=5, slots=(1,)), **changes)  # type: ignore[arg-type]
    (action,) = plan([assignment], [], fences={1: 5}, gpus=GPUS)
    if refusal is None:
        assert action == Start(assignment)
    else:
        assert isinstance(action, Refuse)
        assert action.refusal is refusal


def test_a_lease_that_is_no_longer_assigned_is_stopped() -> None:
    (action,) = plan([], [job("lse_1")], {}, GPUS)
    assert isinstance(action, Change)
    assert action.desired.stop
    assert action.desired.stop_cause == "UNASSIGNED"


def test_a_lease_that_never_began_is_given_up_when_it_should_stop() -> None:
    prepared = job("lse_1", state=JobState.PREPARED)
    assert plan([], [prepared], {}, GPUS) == [Abandon("lse_1")]
    stopped = assigned("lse_1", desired=Desired(9 * SECOND, stop=True))
    assert plan([stopped], [prepared], {}, GPUS) == [Abandon("lse_1")]
    assert plan([stopped], [], {}, GPUS) == [Skip(stopped)]


def test_a_lease_that_ended_is_never_started_again() -> None:
    assert plan([assigned("lse_1")], [job("lse_1", state=JobState.EXITED)], {}, GPUS) == []


def test_gpus_are_given_on_only_after_their_job_has_ended() -> None:
    newer = assigned("lse_2", token=2)
    stopping = job("lse_1", desired=Desired(9 * SECOND, stop=True, stop_cause="STOPPED"))
    assert plan([newer], [stopping], {0: 1}, GPUS) == []
    ended = replace(stopping, state=JobState.EXITED)
    assert plan([newer], [ended], {0: 1}, GPUS) == [Start(newer)]


def test_of_two_claims_to_a_gpu_the_older_one_is_refused() -> None:
    older, newer = assigned("lse_1", token=1), assigned("lse_2", token=2)
    actions = plan([older, newer], [], {}, GPUS)
    assert actions[0] == Start(newer)
    assert isinstance(actions[1], Refuse)
    assert actions[1].refusal is Refusal.FENCED


def test_a_prepared_lease_that_was_overtaken_is_given_up() -> None:
    overtaken = job("lse_1", token=1, state=JobState.PREPARED)
    assert plan([assigned("lse_1", token=1)], [overtaken], {0: 2}, GPUS) == [Abandon("lse_1")]


def test_a_deadline_moves_on_and_never_back() -> None:
    running = job("lse_1", desired=Desired(10 * SECOND))
    later = assigned("lse_1", desired=Desired(20 * SECOND))
    assert plan([later], [running], {}, GPUS) == [Change("lse_1", Desired(20 * SECOND))]
    for seconds in (5, 10):
        sooner = assigned("lse_1", desired=Desired(seconds * SECOND + 1))
        assert plan([sooner], [running], {}, GPUS) == []


def test_a_constraint_is_passed_on_and_lifted() -> None:
    throttled = Desired(10 * SECOND, constraint="throttle")
    (action,) = plan([assigned("lse_1", desired=throttled)], [job("lse_1")], {}, GPUS)
    assert action == Change("lse_1", throttled)
    (action,) = plan([assigned("lse_1")], [job("lse_1", desired=throttled)], {}, GPUS)
    assert action == Change("lse_1", Desired(10 * SECOND))


def test_a_stop_is_never_taken_back() -> None:
    stopping = job("lse_1", desired=Desired(10 * SECOND, stop=True, stop_cause="BALANCE"))
    assert plan([assigned("lse_1")], [stopping], {}, GPUS) == []


desires = st.builds(
    Desired,
    deadline_us=st.integers(0, 100 * SECOND),
    stop=st.booleans(),
    constraint=st.sampled_from(["", "throttle"]),
)
slots = st.lists(st.sampled_from([*GPUS, 7]), min_size=1, max_size=3, unique=True).map(tuple)
tokens = st.integers(1, 6)
assignments = st.builds(
    Assignment,
    lease_id=st.sampled_from(LEASES),
    fencing_token=tokens,
    slots=slots,
    desired=desires,
    program=st.just(Program(("true",), {}, 0)),
)
jobs = st.builds(
    Job,
    lease_id=st.sampled_from(LEASES),
    fencing_token=tokens,
    slots=slots,
    state=st.sampled_from(JobState),
    desired=desires,
)
assignment_sets = st.lists(assignments, max_size=5, unique_by=lambda each: each.lease_id)
job_sets = st.lists(jobs, max_size=5, unique_by=lambda each: each.lease_id)
fence_sets = st.dictionaries(st.sampled_from(GPUS), tokens)


@given(assignment_sets, job_sets, fence_sets)
def test_no_gpu_ever_has_two_live_jobs_or_an_outdated_one(
    wanted: list[Assignment], known: list[Job], fences: dict[int, int]
) -> None:
    taken = [slot for each in known if each.state is JobState.RUNNING for slot in each.slots]
    by_id = {each.lease_id: each for each in known}
    for action in plan(wanted, known, fences, GPUS):
        if isinstance(action, Start):
            prepared = by_id.get(action.assignment.lease_id)
            started = prepared or action.assignment
            assert prepared is None or prepared.state is JobState.PREPARED
            assert not set(started.slots) & set(taken)
            assert all(started.fencing_token >= fences.get(slot, 0) for slot in started.slots)
            taken += started.slots


@given(assignment_sets, job_sets, fence_sets)
def test_whatever_is_not_wanted_is_asked_to_stop(
    wanted: list[Assignment], known: list[Job], fences: dict[int, int]
) -> None:
    running = {each.lease_id for each in wanted if not each.desired.stop}
    for each in carried_out(plan(wanted, known, fences, GPUS), known):
        if each.state is JobState.RUNNING and each.lease_id not in running:
            assert each.desired.stop


@given(assignment_sets, job_sets, fence_sets)
def test_a_plan_that_was_carried_out_leaves_nothing_to_start_or_change(
    wanted: list[Assignment], known: list[Job], fences: dict[int, int]
) -> None:
    actions = plan(wanted, known, fences, GPUS)
    reached = dict(fences)
    for action in actions:
        if isinstance(action, Start):
            for slot in action.assignment.slots:
                reached[slot] = max(reached.get(slot, 0), action.assignment.fencing_token)
    again = plan(wanted, carried_out(actions, known), reached, GPUS)
    assert not [action for action in again if isinstance(action, Start | Change | Abandon)]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=40))
def test_slices_touch_and_add_up_to_the_run_time(history: list[tuple[int, bool]]) -> None:
    """Each step runs on for a while, cuts, and is answered or not."""
    meter, run_us, sent = Meter(), 0, {}
    for elapsed, answered in [*history, (0, True), (0, True)]:
        run_us += elapsed
        meter = meter.cut(run_us)
        if meter.pending:
            # A slice that may have been sent never changes.
            assert sent.setdefault(meter.pending.seq, meter.pending) == meter.pending
            if answered:
                meter = meter.answered(meter.pending.seq)
    assert meter.complete(run_us)
    assert list(sent) == list(range(1, len(sent) + 1))
    assert sum(each.until_us - each.from_us for each in sent.values()) == run_us
    edges = [0, *(each.until_us for each in sent.values())]
    assert [each.from_us for each in sent.values()] == edges[:-1]


def test_what_was_measured_during_a_silence_becomes_one_slice() -> None:
    meter = Meter().cut(5)
    for run_us in range(6, 1000):
        assert meter.cut(run_us) == meter
    assert meter.answered(1).cut(1000).pending == Slice(2, 5, 1000)


def test_an_answer_to_another_slice_changes_nothing() -> None:
    meter = Meter().cut(5)
    assert meter.answered(2) == meter


def assigned(
    lease_id: str,
    *,
    token: int = 1,
    slots: tuple[int, ...] = (0,),
    desired: Desired = UNTIL_TEN,
) -> Assignment:
    return Assignment(lease_id, token, slots, desired, Program(("true",), {}, 0))


def job(
    lease_id: str,
    *,
    token: int = 1,
    state: JobState = JobState.RUNNING,
    desired: Desired = UNTIL_TEN,
) -> Job:
    return Job(lease_id, token, (0,), state, desired)


def carried_out(actions: Iterable[Action], known: Iterable[Job]) -> list[Job]:
    """The jobs after every action succeeded."""
    jobs = {each.lease_id: each for each in known}
    for action in actions:
        if isinstance(action, Start):
            wanted = action.assignment
            slots = jobs[wanted.lease_id].slots if wanted.lease_id in jobs else wanted.slots
            jobs[wanted.lease_id] = Job(
                wanted.lease_id, wanted.fencing_token, slots, JobState.RUNNING, wanted.desired
            )
        elif isinstance(action, Change):
            jobs[action.lease_id] = replace(jobs[action.lease_id], desired=action.desired)
        elif isinstance(action, Abandon):
            jobs[action.lease_id] = replace(jobs[action.lease_id], state=JobState.EXITED)
    return list(jobs.values())
