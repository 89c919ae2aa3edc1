"""Rounds: who is asked for, in which order, and what follows from each kind of answer."""

import pytest

from admission.holds import Answer, Candidate, Keeper, silence
from admission.policy import Denial, PendingReason
from tests.admission.stage import ACME, BETA, Stage, denied, granted

CAPACITY = Denial(PendingReason.CAPACITY, "0 of 8 H100 are free")
BUDGET = Denial(PendingReason.BUDGET, "0.41 USD needed, 0.00 available")


def test_candidates_come_in_order_of_submission_across_tenants() -> None:
    stage = Stage(ACME, BETA)
    for tenant in (BETA, ACME, BETA, ACME):
        stage.submit(tenant)
    assert chosen(stage) == ["wl_1", "wl_2", "wl_3", "wl_4"]


def test_a_tenant_without_quota_stops_nobody_else() -> None:
    stage = Stage(ACME, BETA)
    stage.submit(ACME, gpu_count=8)
    stage.admit_all()
    waiting, passing = stage.submit(ACME), stage.submit(BETA)
    assert chosen(stage) == [passing]
    assert stage.workload(waiting).reason == "QUOTA"


def test_within_a_tenant_nobody_passes_one_who_does_not_fit() -> None:
    stage = Stage(ACME)
    stage.submit(gpu_count=4)
    stage.admit_all()
    stage.submit(gpu_count=8)
    small = stage.submit(gpu_count=1)
    assert chosen(stage) == []
    assert stage.workload(small).reason == "PRIORITY"


def test_together_they_are_never_more_than_the_quota() -> None:
    stage = Stage(ACME)
    for _ in range(5):
        stage.submit(gpu_count=3)
    assert stage.admit_all() == ["wl_1", "wl_2"]
    assert stage.admission.usage.of(ACME) == {"H100": 6}
    # The speculation that those in front are admitted is no reason to defer the third.
    assert [stage.workload(f"wl_{n}").reason for n in (3, 4)] == ["QUOTA", "PRIORITY"]


def test_one_command_that_admits_many_counts_each() -> None:
    stage = Stage(ACME)
    for _ in range(4):
        stage.submit(gpu_count=2)
    candidates = stage.choose()
    stage.set_quota(ACME, H100=5)
    settled = stage.settle(*map(granted, candidates))
    assert settled.admitted == 2
    assert settled.release[Keeper.PLACEMENT] == ["lse_3_1", "lse_4_1"]
    assert [stage.workload(f"wl_{n}").reason for n in (3, 4)] == ["QUOTA", "PRIORITY"]


def test_a_smaller_request_waits_for_the_answer_to_the_larger_in_front_of_it() -> None:
    stage = Stage(ACME)
    for count in (2, 3, 1):
        stage.submit(gpu_count=count)
    candidates = stage.choose()
    assert [c.workload_id for c in candidates] == ["wl_1", "wl_2"]
    assert stage.settle(*map(granted, candidates)).more
    assert chosen(stage, everybody=False) == ["wl_3"]


def test_behind_a_refusal_holds_are_given_back() -> None:
    stage = Stage(ACME)
    for _ in range(3):
        stage.submit()
    first, second, third = stage.choose()
    settled = stage.settle(granted(first), denied(second, CAPACITY), granted(third))
    assert settled.admitted == 1
    assert settled.release == {Keeper.PLACEMENT: ["lse_3_1"], Keeper.BILLING: ["lse_3_1"]}
    assert [stage.workload(f"wl_{n}").status for n in (1, 2, 3)] == ["ADMITTED", "QUEUED", "QUEUED"]
    assert [stage.workload(f"wl_{n}").reason for n in (2, 3)] == ["CAPACITY", "PRIORITY"]
    assert stage.workload("wl_3").lease_id_next == "lse_3_2"


def test_no_event_is_recorded_for_what_was_decided_before() -> None:
    stage = Stage(ACME)
    stage.submit()
    for _ in range(3):
        (candidate,) = stage.choose()
        settled = stage.settle(denied(candidate, CAPACITY))
        assert (settled.release, settled.more) == ({}, False)
    assert stage.topics()[1:] == ["workload.submitted", "workload.deferred"]


def test_when_money_is_missing_the_gpus_are_given_back_and_money_is_asked_for_first() -> None:
    stage = Stage(ACME)
    stage.submit()
    (candidate,) = stage.choose()
    assert candidate.first is Keeper.PLACEMENT
    settled = stage.settle(denied(candidate, BUDGET, Keeper.PLACEMENT))
    assert settled.release == {Keeper.PLACEMENT: ["lse_1_1"]}
    assert stage.workload("wl_1").reason == "BUDGET"
    recorded = len(stage.log.events)
    for _ in range(3):
        (candidate,) = stage.choose()
        assert (candidate.lease_id, candidate.first) == ("lse_1_2", Keeper.BILLING)
        stage.settle(denied(candidate, BUDGET))
    assert len(stage.log.events) == recorded


def test_an_unclear_answer_keeps_the_hold_and_the_lease_id() -> None:
    stage = Stage(ACME)
    stage.submit()
    (candidate,) = stage.choose()
    settled = stage.settle(denied(candidate, silence(Keeper.BILLING), Keeper.PLACEMENT))
    assert settled.release == {}
    workload = stage.workload("wl_1")
    assert (workload.reason, workload.detail) == ("HELD", "billing does not answer")
    assert chosen(stage) == ["wl_1"]
    assert workload.lease_id_next == "lse_1_1"


def test_a_lapsed_lease_id_is_replaced_without_a_new_reason() -> None:
    stage = Stage(ACME)
    stage.submit()
    (candidate,) = stage.choose()
    settled = stage.settle(Answer(candidate, holds={Keeper.PLACEMENT}, lapsed=True))
    assert settled.release == {Keeper.PLACEMENT: ["lse_1_1"], Keeper.BILLING: ["lse_1_1"]}
    assert (stage.workload("wl_1").attempt, stage.workload("wl_1").reason) == (2, "PRIORITY")
    assert not settled.more


def test_who_stopped_meanwhile_is_not_admitted_and_stops_nobody() -> None:
    stage = Stage(ACME)
    for _ in range(2):
        stage.submit()
    candidates = stage.choose()
    stage.run(lambda at: stage.admission.stop("wl_1", ACME, at=at))
    settled = stage.settle(*map(granted, candidates))
    assert settled.admitted == 1
    assert settled.release == {Keeper.PLACEMENT: ["lse_1_1"], Keeper.BILLING: ["lse_1_1"]}
    assert stage.workload("wl_2").status == "ADMITTED"


@pytest.mark.parametrize(("tighter", "reason"), [({"H100": 1}, "NEVER_FITS"), ({}, "ENVELOPE")])
def test_an_envelope_that_shrank_meanwhile_stops_an_admission(
    tighter: dict[str, int], reason: str
) -> None:
    stage = Stage(ACME)
    stage.submit(gpu_count=2)
    (candidate,) = stage.choose()
    stage.set_quota(ACME, **tighter)
    settled = stage.settle(granted(candidate))
    assert (settled.admitted, len(settled.release)) == (0, 2)
    assert stage.workload("wl_1").reason == reason


def test_a_suspended_tenant_waits_and_goes_on_when_resumed() -> None:
    stage = Stage(ACME)
    stage.submit()
    stage.run(lambda at: stage.admission.suspend(ACME, "unpaid", at=at))
    assert chosen(stage, everybody=False) == []
    assert stage.workload("wl_1").reason == "ENVELOPE"
    stage.run(lambda at: stage.admission.resume(ACME, at=at))
    assert chosen(stage, everybody=False) == ["wl_1"]


def test_a_round_looks_only_at_those_whose_situation_changed() -> None:
    stage = Stage(ACME, BETA)
    stage.submit(ACME)
    stage.choose()
    stage.submit(BETA)
    assert chosen(stage, everybody=False) == ["wl_2"]
    assert chosen(stage, everybody=False) == []
    stage.run(lambda at: stage.admission.wake_everybody())
    assert chosen(stage, everybody=False) == ["wl_1", "wl_2"]


def test_the_end_of_a_lease_wakes_everybody() -> None:
    stage = Stage(ACME, BETA)
    stage.submit(ACME)
    stage.admit_all()
    stage.submit(BETA)
    stage.choose()
    stage.end("wl_1")
    assert chosen(stage, everybody=False) == ["wl_2"]


def test_those_beyond_a_rounds_limit_have_their_turn_in_the_next() -> None:
    tenants = [f"ten_{n}" for n in range(5)]
    stage = Stage(*tenants)
    for tenant in tenants:
        stage.submit(tenant)
    seen: list[str] = []
    candidates = stage.choose(2)
    while candidates:
        seen += [candidate.workload_id for candidate in candidates]
        stage.settle(*[denied(candidate, CAPACITY) for candidate in candidates])
        candidates = stage.choose(2, everybody=False)
    assert seen == [f"wl_{n}" for n in range(1, 6)]


def test_a_refused_line_longer_than_a_round_is_asked_for_once() -> None:
    stage = Stage(ACME)
    for _ in range(5):
        stage.submit()
    settled = stage.settle(*[denied(candidate, CAPACITY) for candidate in stage.choose(2)])
    assert not settled.more
    assert chosen(stage, everybody=False) == []


def test_whatever_may_let_somebody_start_rings() -> None:
    stage = Stage(ACME)
    rings: list[int] = []
    stage.admission.on_change = lambda: rings.append(stage.at)
    stage.submit()
    stage.set_quota(ACME, H100=4)
    stage.run(lambda at: stage.admission.stop("wl_1", ACME, at=at))
    stage.submit()
    assert len(rings) == 4
    # A round's own decisions do not: it would never come to rest.
    (candidate,) = stage.choose()
    stage.settle(denied(candidate, BUDGET, Keeper.PLACEMENT))
    stage.admit_all()
    assert len(rings) == 4


def chosen(stage: Stage, *, everybody: bool = True) -> list[str]:
    candidates: list[Candidate] = stage.choose(everybody=everybody)
    return [candidate.workload_id for candidate in candidates]
