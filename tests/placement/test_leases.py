"""A lease from hold to end: what each command does, what it answers again, what it ignores."""

import pytest

from chassis.errors import Conflict, NotFound
from placement import policy
from placement.policy import EndCause, HoldRefusal, RunState, RunStatus
from tests.placement.fleet import MINUTE, SECOND, TENANT, Fleet, request

RUNNING, EXITED, START_FAILED = RunState.RUNNING, RunState.EXITED, RunState.START_FAILED


def test_a_lease_lives_from_hold_to_end() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1", 4)
    fleet.wait(10 * SECOND)
    fleet.report("lse_1_1", RUNNING, 9 * SECOND)
    fleet.wait(50 * SECOND)
    assert fleet.report("lse_1_1", EXITED, 59 * SECOND).settled == ("lse_1_1",)
    assert fleet.topics("lse_1_1") == ["held", "bound", "activated", "ended"]
    [ended] = fleet.facts("lease.ended")
    assert ended["ended_at"] - ended["activated_at"] == 59 * SECOND
    assert (ended["cause"], ended["clamped"], ended["exit_code"]) == ("EXITED", False, 0)
    assert ended["meta"]["correlation_id"] == "wl_1"
    assert fleet.placement.slots.free_count("nod_a") == 8


def test_a_repeated_hold_gets_the_first_answer() -> None:
    fleet = Fleet("nod_a")
    first = fleet.hold("lse_1_1", 8)
    fleet.wait(SECOND)
    assert fleet.hold("lse_1_1", 8) == first
    assert fleet.topics("lse_1_1") == ["held"]


@pytest.mark.parametrize(
    "other",
    [
        request("lse_1_1", 2),
        request("lse_1_1", 1, model="A100"),
        request("lse_1_1").__class__("lse_1_1", "ten_b", "wl_1", "H100", 1, "wl_1"),
        request("lse_1_1").__class__("lse_1_1", TENANT, "wl_2", "H100", 1, "wl_2"),
    ],
)
def test_a_lease_id_cannot_be_reused_for_something_else(other: policy.HoldRequest) -> None:
    fleet = Fleet("nod_a")
    fleet.hold("lse_1_1")
    with pytest.raises(Conflict) as error:
        fleet.hold_all(request("lse_2_1"), other)
    assert error.value.code == "LEASE_ID_REUSED"
    assert fleet.topics("lse_2_1") == []


def test_holds_of_one_batch_do_not_share_a_gpu() -> None:
    fleet = Fleet("nod_a", "nod_b", gpus=4)
    results = fleet.hold_all(*(request(f"lse_{n}_1", 3) for n in range(3)))
    assert [result.refusal for result in results] == [None, None, HoldRefusal.CAPACITY]
    assert results[2].detail == "3 H100 wanted on one node; 2 free in all, at most 1 on one node"
    places = [(held["node_id"], held["slots"]) for held in fleet.facts("lease.held")]
    assert places == [("nod_a", [0, 1, 2]), ("nod_b", [0, 1, 2])]


def test_what_no_node_could_hold_is_told_at_once() -> None:
    fleet = Fleet("nod_a", gpus=4)
    result = fleet.hold("lse_1_1", 5)
    assert result.refusal is HoldRefusal.NEVER_FITS
    assert result.detail == "5 H100 wanted; the largest node has 4"


def test_a_hold_lapses_by_itself_or_on_request_and_its_id_is_spent() -> None:
    fleet = Fleet("nod_a")
    fleet.hold_all(request("lse_1_1", 4), request("lse_2_1", 4))
    fleet.do(lambda at: fleet.placement.release_holds(["lse_1_1", "lse_none"], at=at))
    fleet.wait(61 * SECOND)
    fleet.tick()
    assert [lapsed["cause"] for lapsed in fleet.facts("lease.lapsed")] == ["RELEASED", "EXPIRED"]
    assert fleet.hold("lse_1_1", 4).refusal is HoldRefusal.LAPSED
    assert fleet.placement.slots.free_count("nod_a") == 8


def test_a_hold_past_its_time_is_still_good_until_somebody_ends_it() -> None:
    fleet = Fleet("nod_a")
    fleet.hold("lse_1_1")
    fleet.wait(MINUTE * 2)
    fleet.bind("lse_1_1")
    assert fleet.topics("lse_1_1") == ["held", "bound"]


def test_a_lapsed_hold_is_bound_to_other_gpus_if_there_are_any() -> None:
    fleet = Fleet("nod_a")
    fleet.hold("lse_1_1", 2)
    fleet.wait(MINUTE * 2)
    fleet.sync("nod_a")
    fleet.tick()
    fleet.hold("lse_2_1", 3)
    fleet.bind("lse_1_1", 2)
    assert fleet.topics("lse_1_1") == ["held", "lapsed", "bound"]
    assert fleet.status("lse_1_1")["slots"] == [3, 4]


def test_a_binding_without_gpus_is_refused_once() -> None:
    fleet = Fleet("nod_a")
    fleet.hold("lse_1_1", 2)
    fleet.wait(MINUTE * 2)
    fleet.sync("nod_a")
    fleet.tick()
    fleet.hold("lse_2_1", 8)
    fleet.bind("lse_1_1", 2)
    fleet.bind("lse_1_1", 2)
    assert fleet.topics("lse_1_1") == ["held", "lapsed", "bind_refused"]
    assert fleet.hold("lse_1_1", 2).refusal is HoldRefusal.LAPSED


def test_an_admission_that_we_never_held_is_bound_or_refused_on_record() -> None:
    fleet = Fleet("nod_a", gpus=2)
    fleet.bind("lse_1_1", 2)
    fleet.bind("lse_2_1", 2)
    assert fleet.topics("lse_1_1") == ["held", "bound"]
    assert fleet.topics("lse_2_1") == ["held", "bind_refused"]


def test_what_cannot_be_rendered_fails_for_good_and_frees_its_gpus() -> None:
    fleet = Fleet("nod_a", gpus=2)
    fleet.hold("lse_1_1", 2)
    fleet.bind("lse_1_1", 2, command=[])
    [ended] = fleet.facts("lease.ended")
    assert (ended["cause"], ended["activated_at"]) == ("START_FAILED", 0)
    assert ended["detail"] == "COMMAND: a training job needs a command"
    assert fleet.hold("lse_2_1", 2).refusal is None


def test_an_admission_comes_twice() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.bind("lse_1_1")
    assert fleet.topics("lse_1_1") == ["held", "bound"]


def test_a_running_lease_is_renewed_in_its_second_half_only() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    for minute in range(1, 12):
        fleet.wait(MINUTE)
        fleet.report("lse_1_1", RUNNING, minute * MINUTE)
    renewals = fleet.facts("lease.renewed")
    assert [renewed["run_us"] // MINUTE for renewed in renewals] == [5, 10]
    fleet.tick()
    assert fleet.status("lse_1_1")["status"] == "active"


def test_a_lease_is_not_renewed_beyond_the_limit_of_its_program() -> None:
    fleet = Fleet("nod_a")
    fleet.hold("lse_1_1")
    fleet.bind("lse_1_1", seconds_max=60)
    for minute in range(9):
        fleet.report("lse_1_1", RUNNING, minute * MINUTE + 1)
        fleet.wait(MINUTE)
    assert fleet.facts("lease.renewed") == []


@pytest.mark.parametrize("cause", [EndCause.STOPPED, EndCause.BALANCE])
def test_a_drain_is_told_to_the_node_and_named_as_the_cause(cause: EndCause) -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    fleet.do(lambda at: fleet.placement.drain("lse_1_1", cause, at=at))
    fleet.do(lambda at: fleet.placement.drain("lse_1_1", EndCause.LIMIT, at=at))
    [order] = fleet.sync("nod_a").orders
    assert (order.run, order.stop_cause, order.grace_us) == (False, cause, policy.DRAIN_GRACE_US)
    fleet.wait(SECOND)
    fleet.report("lse_1_1", EXITED, SECOND, exit_code=143, cause="STOPPED")
    [ended] = fleet.facts("lease.ended")
    assert (ended["cause"], ended["exit_code"]) == (cause, 143)


def test_a_draining_lease_is_not_renewed() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.do(lambda at: fleet.placement.drain("lse_1_1", EndCause.STOPPED, at=at))
    fleet.wait(9 * MINUTE)
    fleet.report("lse_1_1", RUNNING, 8 * MINUTE)
    assert fleet.topics("lse_1_1") == ["held", "bound", "drain_requested", "activated"]
    assert fleet.status("lse_1_1")["status"] == "draining"


def test_a_lease_stopped_before_it_started_was_never_active() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.do(lambda at: fleet.placement.drain("lse_1_1", EndCause.STOPPED, at=at))
    fleet.report("lse_1_1", EXITED, 0, exit_code=-1, cause="STOPPED")
    [ended] = fleet.facts("lease.ended")
    assert (ended["cause"], ended["activated_at"]) == ("STOPPED", 0)
    assert fleet.facts("lease.activated") == []


def test_a_program_that_cannot_start_ends_its_lease_with_the_reason() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", START_FAILED, 0, exit_code=127, error="no such file: train")
    [ended] = fleet.facts("lease.ended")
    assert (ended["cause"], ended["activated_at"]) == ("START_FAILED", 0)
    assert ended["detail"] == "no such file: train"


def test_a_constraint_is_set_and_lifted_once() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    for step in ("throttle", "throttle", ""):
        fleet.do(lambda at, step=step: fleet.placement.constrain("lse_1_1", step, "X", at=at))
        [order] = fleet.sync("nod_a").orders
        assert order.constraint == step
    assert fleet.topics("lse_1_1") == ["held", "bound", "constrained", "constrained"]


def test_a_report_with_another_token_or_from_another_node_changes_nothing() -> None:
    fleet = Fleet("nod_a", "nod_b")
    fleet.lease("lse_1_1")
    token = fleet.status("lse_1_1")["fencing_token"]
    fleet.sync("nod_a", RunStatus("lse_1_1", token + 1, RUNNING, SECOND))
    fleet.sync("nod_b", RunStatus("lse_1_1", token, RUNNING, SECOND))
    assert fleet.topics("lse_1_1") == ["held", "bound"]


def test_what_ended_on_a_node_and_is_over_here_is_settled() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", EXITED, 5)
    before = len(fleet.log.events)
    assert fleet.report("lse_1_1", EXITED, 7).settled == ("lse_1_1",)
    assert fleet.sync("nod_a", RunStatus("lse_9_9", 1, EXITED, 7)).settled == ("lse_9_9",)
    assert fleet.sync("nod_a", RunStatus("lse_9_9", 1, RUNNING, 7)).settled == ()
    assert len(fleet.log.events) == before


def test_the_revision_changes_when_the_orders_do_and_only_then() -> None:
    fleet = Fleet("nod_a", "nod_b")
    seen = [fleet.sync("nod_a").revision]
    fleet.lease("lse_1_1")
    seen.append(fleet.sync("nod_a").revision)
    fleet.report("lse_1_1", RUNNING, 1)
    seen.append(fleet.sync("nod_a").revision)
    fleet.do(lambda at: fleet.placement.constrain("lse_1_1", "throttle", "X", at=at))
    fleet.do(lambda at: fleet.placement.drain("lse_1_1", EndCause.STOPPED, at=at))
    seen.append(fleet.sync("nod_a").revision)
    fleet.report("lse_1_1", EXITED, 1)
    seen.append(fleet.sync("nod_a").revision)
    assert seen == [0, 1, 1, 3, 4]
    assert fleet.sync("nod_b").revision == 0


def test_another_tenants_lease_does_not_exist() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    assert fleet.placement.lease("lse_1_1", TENANT).id == "lse_1_1"
    with pytest.raises(NotFound) as error:
        fleet.placement.lease("lse_1_1", "ten_other")
    assert error.value.code == "LEASE_NOT_FOUND"
    assert fleet.placement.leases("ten_other", 0, 10) == ([], 0)


def test_leases_are_listed_newest_first_in_pages() -> None:
    fleet = Fleet("nod_a")
    for number in range(5):
        fleet.hold(f"lse_{number}_1")
    seen, before = [], 0
    while True:
        page, before = fleet.placement.leases(TENANT, before, 2)
        seen.append([lease.id for lease in page])
        if not before:
            break
    assert seen == [["lse_4_1", "lse_3_1"], ["lse_2_1", "lse_1_1"], ["lse_0_1"]]


def test_history_survives_a_tighter_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1", 8)
    fleet.report("lse_1_1", EXITED, 100)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("replay asked a rule")

    for rule in ("start", "end", "end_cause", "loss_cause", "renewal", "join_refusal"):
        monkeypatch.setattr(policy, rule, refuse)
    assert fleet.rebuilt().state() == fleet.placement.state()
