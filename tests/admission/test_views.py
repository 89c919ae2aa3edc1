"""The views: positions, pages, usage, and explanations drawn from them."""

import json

from admission.policy import Denial, PendingReason
from admission.projections import Queue
from tests.admission.stage import ACME, BETA, Stage, denied


def test_positions_count_everybody_in_order_of_submission() -> None:
    stage = Stage(ACME, BETA)
    keys = [stage.submit(tenant) for tenant in (ACME, BETA, ACME)]
    assert positions(stage, keys) == [1, 2, 3]
    stage.run(lambda at: stage.admission.stop(keys[0], ACME, at=at))
    assert positions(stage, keys) == [0, 1, 2]


def test_a_position_is_told_before_the_queue_has_seen_the_workload() -> None:
    stage = Stage(ACME)
    stage.submit()
    told = []

    def submit_and_tell(at: int) -> None:
        workload = stage.admission.submit("wl_new", ACME, stage.workload("wl_1").intent, at=at)
        told.append(stage.admission.position(workload))

    stage.run(submit_and_tell)
    assert told == [2]
    assert positions(stage, ["wl_new"]) == [2]


def test_a_workload_that_comes_back_has_its_old_place() -> None:
    stage = Stage(ACME)
    first = stage.submit()
    stage.admit_all()
    second = stage.submit()
    stage.run(lambda at: stage.admission.lose_lease("lse_1_1", "CAPACITY", at=at))
    assert positions(stage, [first, second]) == [1, 2]


def test_pending_workloads_are_counted_by_reason() -> None:
    stage = Stage(ACME)
    key = stage.submit()
    stage.submit()
    queue = stage.admission.queue
    assert (queue.pending("PRIORITY"), queue.pending("CAPACITY")) == (2, 0)
    full = Denial(PendingReason.CAPACITY, "")
    stage.run(lambda at: stage.admission.defer(key, full, at=at))
    assert (queue.pending("PRIORITY"), queue.pending("CAPACITY")) == (1, 1)
    stage.admit_all()
    assert (queue.pending("PRIORITY"), queue.pending("CAPACITY")) == (0, 0)


def test_the_queue_is_the_same_after_its_state_was_stored() -> None:
    stage = Stage(ACME, BETA)
    keys = [stage.submit(tenant) for tenant in (ACME, BETA, ACME)]
    stage.run(lambda at: stage.admission.stop(keys[0], ACME, at=at))
    (candidate, _) = stage.choose()
    full = Denial(PendingReason.CAPACITY, "")
    stage.settle(denied(candidate, full))
    live, loaded = stage.admission.queue, Queue()
    loaded.load(json.loads(json.dumps(live.state())))
    assert loaded.state() == live.state()
    for key in keys:
        assert loaded.ahead(key) == live.ahead(key)
    assert [loaded.head(tenant) for tenant in (ACME, BETA)] == [3, 2]
    assert sorted(loaded.tenants()) == sorted(live.tenants())
    assert loaded.pending("CAPACITY") == live.pending("CAPACITY") == 1


def test_usage_lasts_from_admission_to_the_end_of_the_lease() -> None:
    stage = Stage(ACME)
    keys = [stage.submit(gpu_count=count) for count in (2, 3)]
    usage = stage.admission.usage
    assert usage.of(ACME) == {}
    stage.admit_all()
    assert usage.of(ACME) == {"H100": 5}
    stage.run(lambda at: stage.admission.stop(keys[0], ACME, at=at))
    assert usage.of(ACME) == {"H100": 5}
    stage.end(keys[0], "STOPPED")
    assert usage.of(ACME) == {"H100": 3}
    stage.run(lambda at: stage.admission.lose_lease("lse_2_1", "CAPACITY", at=at))
    assert usage.of(ACME) == {}


def test_pages_go_back_from_the_newest_and_do_not_shift() -> None:
    stage = Stage(ACME, BETA)
    for _ in range(5):
        stage.submit(ACME)
    stage.submit(BETA)
    page, before = stage.admission.page(ACME, 2, 0)
    assert [workload.id for workload in page] == ["wl_5", "wl_4"]
    stage.submit(ACME)
    page, before = stage.admission.page(ACME, 2, before)
    assert [workload.id for workload in page] == ["wl_3", "wl_2"]
    page, before = stage.admission.page(ACME, 2, before)
    assert ([workload.id for workload in page], before) == (["wl_1"], 0)
    assert stage.admission.page("ten_nobody", 2, 0) == ([], 0)
    assert len(stage.admission.page(ACME, 500, 10**9)[0]) == 6


def test_an_explanation_has_the_numbers_and_the_remedies() -> None:
    stage = Stage(ACME, BETA)
    stage.submit(ACME, gpu_count=6)
    stage.admit_all()
    stage.submit(BETA)
    key = stage.submit(ACME, gpu_count=4)
    stage.choose()
    found = stage.admission.explain(key, ACME)
    assert (found.quota, found.used, found.ahead) == (8, 6, 1)
    assert (found.workload.reason, found.workload.detail) == (
        "QUOTA",
        "4 H100 asked, 6 of 8 H100 are in use",
    )
    assert "with 2 H100 it would be within the quota now" in found.remedies
    assert stage.admission.explain("wl_1").remedies == []


def positions(stage: Stage, keys: list[str]) -> list[int]:
    return [stage.admission.position(stage.workload(key)) for key in keys]
