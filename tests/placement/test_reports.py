"""The billable interval: exact for an honest node whatever the network does, bounded for a liar."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.policy import RunState, RunStatus
from tests.placement.fleet import SECOND, Fleet

RUNNING, EXITED = RunState.RUNNING, RunState.EXITED
# Well within the first term: a lease that expires is another story.
RUN = st.integers(1, 300 * SECOND)
DELAY = st.integers(0, 250 * SECOND)


@dataclass(frozen=True, order=True)
class Arrival:
    """A report that was measured ``run_us`` into the run and comes in at ``at``."""

    at: int
    state: RunState
    run_us: int


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, list[Arrival]]:
    """How long after its delivery a program starts and how long it runs, and what is heard of it:
    measured at any moment, delayed by anything, repeated, in any order; the end at least once."""
    started, run_us = draw(st.integers(0, 20 * SECOND)), draw(RUN)
    arrivals = [Arrival(started + run_us + draw(DELAY), EXITED, run_us)]
    for measured in draw(st.lists(st.integers(0, run_us), max_size=4)):
        arrivals.append(Arrival(started + measured + draw(DELAY), RUNNING, measured))
    for again in draw(st.lists(st.sampled_from(arrivals), max_size=3)):
        arrivals.append(Arrival(again.at + draw(DELAY), again.state, again.run_us))
    return started, run_us, sorted(arrivals)


@given(histories(), st.booleans())
def test_an_honest_node_is_billed_to_the_microsecond(
    history: tuple[int, int, list[Arrival]], remembered: bool
) -> None:
    started, run_us, arrivals = history
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    delivered_at, bound_at = fleet.at, fleet.status("lse_1_1")["bound_at"]
    if not remembered:
        fleet.placement.presence.forget("lse_1_1")
    for arrival in arrivals:
        fleet.at = max(fleet.at, delivered_at + arrival.at)
        fleet.report("lse_1_1", arrival.state, arrival.run_us)
    [ended] = fleet.facts("lease.ended")
    assert ended["ended_at"] - ended["activated_at"] == run_us
    assert not ended["clamped"]
    assert bound_at <= ended["activated_at"] <= delivered_at + started
    assert len(fleet.facts("lease.activated")) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from(RunState), st.integers(0, 2**63 - 1), st.integers(0, 400)),
        max_size=8,
    )
)
def test_a_lying_node_cannot_bill_more_than_the_lease_existed(
    reports: list[tuple[RunState, int, int]],
) -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    bound_at = fleet.status("lse_1_1")["bound_at"]
    for state, run_us, seconds in reports:
        fleet.wait(seconds * SECOND)
        fleet.report("lse_1_1", state, run_us)
        fleet.tick()
    for ended in fleet.facts("lease.ended"):
        if ended["activated_at"]:
            expires_at = fleet.status("lse_1_1")["expires_at"]
            assert bound_at <= ended["activated_at"] <= ended["ended_at"]
            assert ended["ended_at"] <= min(ended["meta"]["at"], expires_at)


@pytest.mark.parametrize(("claimed", "clamped"), [(59, False), (61, True), (10**6, True)])
def test_a_claim_beyond_the_possible_is_flagged(claimed: int, clamped: bool) -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, 1)
    fleet.wait(60 * SECOND)
    fleet.report("lse_1_1", EXITED, claimed * SECOND)
    [ended] = fleet.facts("lease.ended")
    assert ended["clamped"] is clamped
    assert ended["ended_at"] <= ended["meta"]["at"]


def test_a_start_is_stamped_when_the_assignment_was_handed_over() -> None:
    fleet = Fleet("nod_a")
    fleet.hold("lse_1_1")
    fleet.bind("lse_1_1")
    fleet.wait(40 * SECOND)  # the node is away
    orders = fleet.sync("nod_a", revision=0)
    delivered_at = fleet.at
    fleet.wait(SECOND)
    # Other news while the program starts: the node has this lease and is not handed it again.
    fleet.sync("nod_a", revision=orders.revision)
    fleet.wait(30 * SECOND)
    fleet.report("lse_1_1", RUNNING, 29 * SECOND)
    [activated] = fleet.facts("lease.activated")
    assert activated["activated_at"] == delivered_at


def test_a_slot_is_never_billed_to_two_leases_at_once() -> None:
    fleet = Fleet("nod_a", gpus=1)
    fleet.lease("lse_1_1")
    fleet.wait(10 * SECOND)
    fleet.report("lse_1_1", EXITED, 10**12)
    fleet.lease("lse_2_1")
    token = fleet.status("lse_2_1")["fencing_token"]
    fleet.sync("nod_a", RunStatus("lse_2_1", token, EXITED, 10**12))
    [first, second] = fleet.facts("lease.ended")
    assert first["ended_at"] <= second["activated_at"]
