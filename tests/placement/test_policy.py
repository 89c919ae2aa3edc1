"""The rules of leases and nodes, one row per rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import policy
from placement.policy import EndCause, Evidence, JoinRefusal, RunState, RunStatus
from tests.placement.fleet import NOON, SECOND, evidence, gpu

TERM = 600 * SECOND


# Bound at 100; told at 200.
@pytest.mark.parametrize(
    ("delivered_at", "run_us", "starts_at"),
    [
        (120, 50, 120),  # handed over at 120, surely not started before
        (0, 50, 100),  # nobody remembers when it was handed over
        (120, 90, 110),  # it says it ran since 110; believed as far as the binding
        (120, 5000, 100),  # it cannot have run before it was bound
    ],
)
def test_a_lease_starts_when_its_node_cannot_have_started_before(
    delivered_at: int, run_us: int, starts_at: int
) -> None:
    assert policy.start(bound_at=100, delivered_at=delivered_at, run_us=run_us, at=200) == starts_at


# Active since 100, told at 200.
@pytest.mark.parametrize(
    ("run_us", "expires_at", "ended_at", "clamped"),
    [
        (60, 500, 160, False),
        (100, 500, 200, False),  # exactly until now
        (101, 500, 200, True),  # longer than it can have run
        (60, 150, 150, True),  # a lease never outlives its expiry
        (-5, 500, 100, True),
        (0, 500, 100, False),
    ],
)
def test_a_lease_ends_after_what_the_node_measured_within_what_we_know(
    run_us: int, expires_at: int, ended_at: int, clamped: bool
) -> None:
    end = policy.end(activated_at=100, run_us=run_us, expires_at=expires_at, at=200)
    assert (end.ended_at, end.clamped) == (ended_at, clamped)


@given(st.integers(), st.integers(0), st.integers(0), st.integers(0))
def test_no_report_makes_an_interval_that_we_did_not_see(
    run_us: int, bound_at: int, elapsed: int, term: int
) -> None:
    at, expires_at = bound_at + elapsed, bound_at + term
    begin = policy.start(bound_at=bound_at, delivered_at=0, run_us=run_us, at=at)
    end = policy.end(activated_at=begin, run_us=run_us, expires_at=expires_at, at=at)
    assert bound_at <= begin <= end.ended_at <= max(begin, min(at, expires_at))


@pytest.mark.parametrize(
    ("state", "reported", "drain_cause", "cause"),
    [
        (RunState.START_FAILED, "STOPPED", "BALANCE", EndCause.START_FAILED),
        (RunState.EXITED, "STOPPED", "BALANCE", EndCause.BALANCE),
        (RunState.EXITED, "STOPPED", "", EndCause.STOPPED),
        (RunState.EXITED, "", "STOPPED", EndCause.EXITED),  # it was faster than the stop
        (RunState.EXITED, "LIMIT", "STOPPED", EndCause.LIMIT),
        (RunState.EXITED, "EXPIRED", "", EndCause.EXPIRED),
        (RunState.EXITED, "NODE_LOST", "", EndCause.NODE_LOST),
        (RunState.EXITED, "BALANCE", "", EndCause.EXITED),  # not for a node to say
        (RunState.EXITED, "whatever", "", EndCause.EXITED),
    ],
)
def test_the_cause_of_an_end(
    state: RunState, reported: str, drain_cause: str, cause: EndCause
) -> None:
    status = RunStatus("lse_1", 1, state, 5, cause=reported)
    assert policy.end_cause(status, drain_cause) is cause


@pytest.mark.parametrize(
    ("activated_at", "node_silent", "cause"),
    [
        (0, True, EndCause.START_FAILED),
        (NOON, True, EndCause.NODE_LOST),
        (NOON, False, EndCause.EXPIRED),
    ],
)
def test_the_cause_of_a_loss(activated_at: int, node_silent: bool, cause: EndCause) -> None:
    assert policy.loss_cause(activated_at=activated_at, node_silent=node_silent) is cause


# Active since NOON.
@pytest.mark.parametrize(
    ("left", "seconds_max", "gained"),
    [
        (TERM // 2, 0, None),  # half of the term is left
        (TERM // 2 - 1, 0, TERM // 2 + 1),
        (SECOND, 400, 360 * SECOND + 1 - SECOND),  # no further than the limit and some room
        (TERM // 2 - 1, 200, None),  # it covers the limit already
    ],
)
def test_a_lease_is_renewed_in_its_second_half(
    left: int, seconds_max: int, gained: int | None
) -> None:
    at = NOON + 100 * SECOND - 1
    expires_at = at + left
    renewed = policy.renewal(
        expires_at=expires_at,
        activated_at=NOON,
        seconds_max=seconds_max,
        lease_us=TERM,
        at=at,
    )
    assert (renewed and renewed - expires_at) == gained


# Every rule with evidence that breaks it and those after it.
@pytest.mark.parametrize(
    ("shown", "refusal"),
    [
        (evidence("n", gpus=0, simulated=True), JoinRefusal.NO_GPUS),
        (evidence("n", gpus=65, simulated=True), JoinRefusal.TOO_MANY_GPUS),
        (
            evidence("n", gpus=(gpu(0, ""), gpu(0, "")), simulated=True),
            JoinRefusal.GPU_UNREADABLE,
        ),
        (evidence("n", gpus=(gpu(64, "a"),)), JoinRefusal.GPU_UNREADABLE),
        (evidence("n", gpus=(gpu(0, "a", ""),)), JoinRefusal.GPU_UNREADABLE),
        (evidence("n", gpus=(gpu(0, "a"), gpu(1, "a")), simulated=True), JoinRefusal.GPU_TWICE),
        (evidence("n", gpus=(gpu(0, "a"), gpu(0, "b")), simulated=True), JoinRefusal.GPU_TWICE),
        (evidence("n", simulated=True), JoinRefusal.SIMULATED),
        (evidence("n"), None),
        (evidence("n", gpus=(gpu(0, "a"), gpu(7, "b"))), None),  # a broken GPU leaves a hole
    ],
)
def test_evidence_is_checked(shown: Evidence, refusal: JoinRefusal | None) -> None:
    assert policy.join_refusal(shown, allow_simulated=False) is refusal


@pytest.mark.parametrize(
    ("in_use", "changed"),
    [(set(), False), ({0}, False), ({1}, True), ({2}, True), ({3}, True)],
)
def test_only_a_leased_slot_may_not_change_its_gpu(in_use: set[int], changed: bool) -> None:
    before, after = {0: "a", 1: "b", 2: "c"}, {0: "a", 1: "x", 3: "c"}
    assert policy.evidence_changed(before, after, in_use) is changed
