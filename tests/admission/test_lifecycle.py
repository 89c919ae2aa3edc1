"""Envelopes and workloads from their first event to their last, and what they refuse."""

import pytest

from admission.policy import Denial, PendingReason
from chassis.clock import SECOND
from chassis.errors import Invalid, NotFound, Refused, Unavailable
from tests.admission.stage import ACME, BETA, Stage, granted, intent

CAPACITY = Denial(PendingReason.CAPACITY, "0 H100 are free")


def test_a_tenant_is_enrolled_once_with_the_starter_quota() -> None:
    stage = Stage(ACME, ACME)
    assert stage.topics() == ["envelope.granted"]
    envelope = stage.envelope(ACME)
    assert (envelope.id, envelope.gpu_quota) == ("env_ten_acme", {"H100": 8})


def test_an_envelope_changes_only_when_something_is_different() -> None:
    stage = Stage(ACME)
    stage.set_quota(ACME, H100=8)
    assert stage.topics() == ["envelope.granted"]
    stage.set_quota(ACME, H100=4, L4=2)
    assert stage.envelope(ACME).gpu_quota == {"H100": 4, "L4": 2}
    assert stage.envelope(ACME).version == 2


def test_an_envelope_is_changed_by_who_has_seen_it() -> None:
    stage = Stage(ACME)
    change = stage.admission.set_envelope
    stage.run(lambda at: change(ACME, {"H100": 1}, "standard", [], version=1, at=at))
    with pytest.raises(Refused) as stale:
        stage.run(lambda at: change(ACME, {"H100": 9}, "standard", [], version=1, at=at))
    assert (stale.value.code, stale.value.details) == ("ENVELOPE_VERSION", {"version": "2"})
    with pytest.raises(Invalid):
        stage.run(lambda at: change(ACME, {"H100": -1}, "standard", [], at=at))
    with pytest.raises(NotFound):
        stage.run(lambda at: change(BETA, {"H100": 1}, "standard", [], at=at))


def test_suspending_and_resuming_are_idempotent_and_total() -> None:
    stage = Stage(ACME)
    for tenant_id in (ACME, ACME, BETA):
        stage.run(lambda at, t=tenant_id: stage.admission.suspend(t, "unpaid", at=at))
    assert stage.envelope(ACME).suspended
    for tenant_id in (ACME, ACME, BETA):
        stage.run(lambda at, t=tenant_id: stage.admission.resume(t, at=at))
    assert stage.topics() == ["envelope.granted", "envelope.suspended", "envelope.resumed"]


def test_a_bad_intent_changes_nothing() -> None:
    stage = Stage(ACME)
    for job, kind, code in (
        ({"gpu_count": 0}, Invalid, "GPU_COUNT"),
        ({"environment": {"LD_PRELOAD": "evil.so"}}, Invalid, "PLATFORM_OWNED"),
        ({"gpu_model": "A100"}, Refused, "NOT_ENTITLED"),
        ({"gpu_count": 9}, Refused, "NEVER_FITS"),
    ):
        with pytest.raises(kind) as refusal:
            stage.submit(**job)
        assert refusal.value.code == code
    assert stage.topics() == ["envelope.granted"]


def test_a_refusal_for_size_carries_its_numbers() -> None:
    with pytest.raises(Refused) as refusal:
        Stage(ACME).submit(gpu_count=16)
    numbers = {"requested": "16", "quota": "8", "nearest": "8"}
    assert refusal.value.details == {"field": "training_job.gpu_count", **numbers}


def test_an_ungranted_trait_is_refused_and_a_granted_one_is_not() -> None:
    stage = Stage(ACME)
    document = intent() | {"traits": ["reserved"]}
    with pytest.raises(Refused) as refusal:
        stage.run(lambda at: stage.admission.submit("wl_1", ACME, document, at=at))
    assert refusal.value.code == "UNGRANTED_TRAIT"
    grant = stage.admission.set_envelope
    stage.run(lambda at: grant(ACME, {"H100": 8}, "standard", ["reserved"], at=at))
    stage.run(lambda at: stage.admission.submit("wl_1", ACME, document, at=at))


def test_a_suspended_tenant_submits_nothing_and_a_new_one_is_asked_to_try_again() -> None:
    stage = Stage(ACME)
    stage.run(lambda at: stage.admission.suspend(ACME, "unpaid", at=at))
    with pytest.raises(Refused) as refusal:
        stage.submit()
    assert refusal.value.code == "TENANT_SUSPENDED"
    with pytest.raises(Unavailable):
        stage.submit(BETA)


def test_a_workload_from_submission_to_success() -> None:
    stage = Stage(ACME)
    key = stage.submit(gpu_count=2)
    assert (stage.workload(key).status, stage.workload(key).reason) == ("QUEUED", "PRIORITY")
    assert stage.workload(key).correlation_id == key
    stage.admit_all()
    workload = stage.workload(key)
    assert (workload.status, workload.lease_id, workload.reason) == ("ADMITTED", "lse_1_1", "")
    stage.run(lambda at: stage.admission.start("lse_1_1", at - 5, at=at))
    assert (workload.status, workload.started_at) == ("RUNNING", stage.at - 5)
    stage.end(key)
    assert (workload.status, workload.ended_at, workload.cause) == (
        "SUCCEEDED",
        stage.at,
        "EXITED",
    )
    assert stage.topics()[1:] == [
        "workload.submitted", "workload.admitted", "workload.started", "workload.ended",
    ]  # fmt: skip


def test_what_placement_reports_twice_or_too_late_changes_nothing() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    stage.admit_all()
    stage.run(lambda at: stage.admission.start("lse_1_1", at, at=at))
    stage.end(key)
    known, admission = stage.topics(), stage.admission
    for lease_id in ("lse_1_1", "lse_1_2", "lse_404_1", "not a lease"):
        stage.run(lambda at, key=lease_id: admission.start(key, at, at=at))
        stage.run(lambda at, key=lease_id: admission.end(key, "EXITED", 1, at, at=at))
        stage.run(lambda at, key=lease_id: admission.lose_hold(key, "EXPIRED", at=at))
        stage.run(lambda at, key=lease_id: admission.lose_lease(key, "CAPACITY", at=at))
    assert stage.topics() == known


def test_a_queued_workload_stops_at_once_and_only_once() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    for _ in range(2):
        stage.run(lambda at: stage.admission.stop(key, ACME, at=at))
    assert stage.topics()[2:] == ["workload.stop_requested", "workload.ended"]
    assert (stage.workload(key).status, stage.workload(key).lease_id) == ("STOPPED", "")
    assert stage.choose() == []


def test_a_running_workload_stops_when_its_lease_has_ended() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    stage.admit_all()
    for _ in range(2):
        stage.run(lambda at: stage.admission.stop(key, ACME, at=at))
    # The node had started it before it heard of the stop.
    stage.run(lambda at: stage.admission.start("lse_1_1", at, at=at))
    assert stage.workload(key).status == "STOPPING"
    assert stage.workload(key).started_at == stage.at
    stage.end(key, "STOPPED", -15)
    assert (stage.workload(key).status, stage.workload(key).exit_code) == ("STOPPED", -15)


def test_another_tenants_workload_does_not_exist() -> None:
    stage = Stage(ACME, BETA)
    key = stage.submit(ACME)
    errors = []
    for workload_id in (key, "wl_404", "env_ten_acme"):
        with pytest.raises(NotFound) as missing:
            stage.run(lambda at, w=workload_id: stage.admission.stop(w, BETA, at=at))
        errors.append(missing.value.message.replace(workload_id, "it"))
    assert set(errors) == {"no workload 'it'"}
    assert stage.workload(key).status == "QUEUED"


def test_a_lease_that_could_not_be_bound_puts_its_workload_back() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    stage.admit_all()
    stage.run(lambda at: stage.admission.lose_lease("lse_1_1", "CAPACITY", at=at))
    workload = stage.workload(key)
    assert (workload.status, workload.attempt, workload.lease_id) == ("QUEUED", 2, "")
    assert workload.lease_id_next == "lse_1_2"
    stage.admit_all()
    assert stage.workload(key).lease_id == "lse_1_2"


def test_the_end_of_an_earlier_lease_does_not_touch_the_one_after_it() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    stage.admit_all()
    stage.run(lambda at: stage.admission.lose_lease("lse_1_1", "CAPACITY", at=at))
    stage.admit_all()
    stage.run(lambda at: stage.admission.end("lse_1_1", "EXITED", 0, at, at=at))
    stage.run(lambda at: stage.admission.start("lse_1_1", at, at=at))
    stage.run(lambda at: stage.admission.lose_lease("lse_1_1", "CAPACITY", at=at))
    assert (stage.workload(key).status, stage.workload(key).lease_id) == ("ADMITTED", "lse_1_2")


def test_a_workload_that_was_to_stop_ends_when_its_lease_could_not_be_bound() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    stage.admit_all()
    stage.run(lambda at: stage.admission.stop(key, ACME, at=at))
    stage.run(lambda at: stage.admission.lose_lease("lse_1_1", "CAPACITY", at=at))
    assert stage.workload(key).status == "STOPPED"


def test_a_lapsed_hold_costs_a_queued_workload_its_lease_id_and_an_admitted_one_nothing() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    stage.run(lambda at: stage.admission.lose_hold("lse_1_1", "EXPIRED", at=at))
    assert stage.workload(key).lease_id_next == "lse_1_2"
    stage.admit_all()
    # Placement may still bind it: only a refusal to bind sends it back.
    stage.run(lambda at: stage.admission.lose_hold("lse_1_2", "EXPIRED", at=at))
    assert stage.workload(key).status == "ADMITTED"


def test_holds_of_an_earlier_try_admit_nobody() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    (candidate,) = stage.choose()
    stage.run(lambda at: stage.admission.lose_hold("lse_1_1", "EXPIRED", at=at))
    settled = stage.settle(granted(candidate))
    assert settled.admitted == 0
    assert sorted(settled.release) == ["billing", "placement"]
    assert stage.workload(key).attempt == 2


def test_waiting_has_one_reason_at_every_moment() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    begin = stage.at
    for _ in range(3):
        stage.run(lambda at: stage.admission.defer(key, CAPACITY, at=at))
    held = Denial(PendingReason.HELD, "placement does not answer")
    stage.run(lambda at: stage.admission.defer(key, held, at=at))
    other = Denial(PendingReason.HELD, "billing does not answer")
    stage.run(lambda at: stage.admission.defer(key, other, at=at))
    stage.admit_all()
    admitted = stage.workload(key).admitted_at
    spans = [
        (w["reason"], (w["from"] - begin) // SECOND, (w["until"] - begin) // SECOND)
        for w in stage.workload(key).waits
    ]
    assert spans == [
        ("PRIORITY", 0, 1),
        ("CAPACITY", 1, 4),
        ("HELD", 4, 5),
        ("HELD", 5, (admitted - begin) // SECOND),
    ]
