"""Random histories: whatever is asked, reported or answered, in any order, the laws hold."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from admission.application import Admission
from admission.domain import Workload
from admission.holds import Answer, Candidate, Keeper, silence
from admission.policy import Denial, PendingReason
from chassis import canonical
from chassis.errors import ServiceError
from tests.admission.stage import Stage, granted

TENANTS = ("ten_1", "ten_2", "ten_3")
tenants = st.sampled_from(TENANTS)
counts = st.integers(1, 3)
causes = st.sampled_from(["EXITED", "STOPPED", "LIMIT", "NODE_LOST"])


class Histories(RuleBasedStateMachine):
    leases = Bundle("leases")

    @initialize(quota=st.integers(1, 6))
    def begin(self, quota: int) -> None:
        self.stage = Stage(*TENANTS, quota=quota)
        self.admission = self.stage.admission

    @rule(tenant=tenants, count=counts, seconds=st.integers(0, 3))
    def submit(self, tenant: str, count: int, seconds: int) -> None:
        codes = {"SECONDS_MAX", "NEVER_FITS", "NOT_ENTITLED", "TENANT_SUSPENDED"}
        with refusals_for(codes):
            self.stage.submit(tenant, count, seconds_max=seconds)

    @rule(target=leases, answers=st.lists(st.integers(0, 9), min_size=4, max_size=4))
    def round(self, answers: list[int]) -> Any:
        candidates = self.stage.choose(3)
        keys = [c.lease_id for c in candidates]
        self.stage.settle(*map(answered, candidates, answers))
        return multiple(*keys)

    @rule(target=leases, tenant=tenants, quota=st.integers(0, 4))
    def round_with_another_quota_between(self, tenant: str, quota: int) -> Any:
        candidates = self.stage.choose(9)
        self.stage.set_quota(tenant, H100=quota)
        self.stage.settle(*map(granted, candidates))
        return multiple(*[c.lease_id for c in candidates])

    @rule(lease_id=leases)
    def round_with_a_hold_lost_between(self, lease_id: str) -> None:
        candidates = self.stage.choose(9)
        self.stage.run(lambda at: self.admission.lose_hold(lease_id, "EXPIRED", at=at))
        self.stage.settle(*map(granted, candidates))

    @rule(lease_id=leases)
    def start(self, lease_id: str) -> None:
        self.stage.run(lambda at: self.admission.start(lease_id, at, at=at))

    @rule(lease_id=consumes(leases), cause=causes, exit_code=st.integers(0, 1))
    def end(self, lease_id: str, cause: str, exit_code: int) -> None:
        self.stage.run(lambda at: self.admission.end(lease_id, cause, exit_code, at, at=at))

    @rule(lease_id=leases)
    def lose_hold(self, lease_id: str) -> None:
        self.stage.run(lambda at: self.admission.lose_hold(lease_id, "EXPIRED", at=at))

    @rule(lease_id=leases)
    def lose_lease(self, lease_id: str) -> None:
        self.stage.run(lambda at: self.admission.lose_lease(lease_id, "CAPACITY", at=at))

    @rule(number=st.integers(1, 30), tenant=tenants)
    def stop(self, number: int, tenant: str) -> None:
        with refusals_for({"WORKLOAD_NOT_FOUND"}):
            self.stage.run(lambda at: self.admission.stop(f"wl_{number}", tenant, at=at))

    @rule(tenant=tenants, quota=st.integers(0, 6))
    def set_quota(self, tenant: str, quota: int) -> None:
        self.stage.set_quota(tenant, H100=quota)

    @rule(tenant=tenants, suspended=st.booleans())
    def suspend(self, tenant: str, suspended: bool) -> None:
        if suspended:
            self.stage.run(lambda at: self.admission.suspend(tenant, "unpaid", at=at))
        else:
            self.stage.run(lambda at: self.admission.resume(tenant, at=at))

    @invariant()
    def usage_equals_a_recount_and_no_admission_passed_the_quota(self) -> None:
        if not hasattr(self, "stage"):
            return
        recount = Recount()
        for event in self.stage.log.events:
            recount.take(event.topic, canonical.loads(event.data))
        used = {t: dict(gpus) for t, gpus in self.admission.usage.gpus.items()}
        assert used == recount.usage()

    @invariant()
    def positions_equal_a_count(self) -> None:
        if not hasattr(self, "stage"):
            return
        waiting = [w for w in self.workloads() if w.status == "QUEUED"]
        for position, workload in enumerate(waiting, 1):
            assert self.admission.position(workload) == position
        assert len(self.admission.queue) == len(waiting)
        by_reason = Counter(workload.reason for workload in waiting)
        for reason in PendingReason:
            assert self.admission.queue.pending(reason.value) == by_reason[reason.value]

    @invariant()
    def every_pending_moment_has_one_reason(self) -> None:
        if not hasattr(self, "stage"):
            return
        pending = pending_spans(self.stage)
        for workload in self.workloads():
            assert merged(workload.waits) == pending[workload.id]

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        live = self.stage.state()
        assert self.stage.rebuilt().state() == live
        restored = Admission(self.stage.log)
        restored.load_state(live)
        assert restored.state() == live

    def workloads(self) -> list[Workload]:
        topics = [(e.topic, e.aggregate_id) for e in self.stage.log.events]
        return [self.stage.workload(key) for topic, key in topics if topic.endswith("submitted")]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


@contextmanager
def refusals_for(codes: set[str]) -> Iterator[None]:
    try:
        yield
    except ServiceError as refusal:
        if refusal.code not in codes:
            raise


class Recount:
    """Quota in use, counted again from the events, checking each admission against its quota."""

    def __init__(self) -> None:
        self.quota: dict[str, dict[str, int]] = {}
        self.held: dict[str, tuple[str, str, int]] = {}

    def take(self, topic: str, data: dict[str, Any]) -> None:
        tenant, key = data["meta"]["tenant_id"], data["meta"]["aggregate_id"]
        if "gpu_quota" in data:
            self.quota[tenant] = data["gpu_quota"]
        if topic.endswith((".requeued", ".ended")):
            self.held.pop(key, None)
        if topic.endswith(".admitted"):
            job = data["intent"]["training_job"]
            self.held[key] = (tenant, job["gpu_model"], job["gpu_count"])
            assert self.usage()[tenant]["H100"] <= self.quota[tenant]["H100"]

    def usage(self) -> dict[str, dict[str, int]]:
        gpus: dict[str, dict[str, int]] = {}
        for tenant, model, count in self.held.values():
            models = gpus.setdefault(tenant, {})
            models[model] = models.get(model, 0) + count
        return gpus


def answered(candidate: Candidate, kind: int) -> Answer:
    """Every kind of answer; more often both holds than anything else."""
    match kind:
        case 0:
            return Answer(candidate, denial=Denial(PendingReason.CAPACITY, "no GPUs"))
        case 1:
            budget = Denial(PendingReason.BUDGET, "no money")
            return Answer(candidate, holds={Keeper.PLACEMENT}, denial=budget)
        case 2:
            return Answer(candidate, denial=silence(Keeper.PLACEMENT))
        case 3:
            hold, nothing = {Keeper.PLACEMENT}, silence(Keeper.BILLING)
            return Answer(candidate, holds=hold, denial=nothing)
        case 4:
            return Answer(candidate, lapsed=True)
        case _:
            return granted(candidate)


def pending_spans(stage: Stage) -> dict[str, list[tuple[int, int]]]:
    """From the events alone: when each workload waited; 0 stands for now."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for event in stage.log.events:
        verb, at = event.topic.rpartition(".")[2], canonical.loads(event.data)["meta"]["at"]
        known = spans.setdefault(event.aggregate_id, [])
        open_ = bool(known) and known[-1][1] == 0
        if verb in ("submitted", "requeued") and not open_:
            known.append((at, 0))
        elif verb in ("admitted", "ended") and open_:
            known[-1] = (known[-1][0], at)
    return spans


def merged(waits: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Waits that touch, joined; a gap or an overlap stays visible."""
    spans: list[tuple[int, int]] = []
    for wait in waits:
        if spans and spans[-1][1] == wait["from"]:
            spans[-1] = (spans[-1][0], wait["until"])
        else:
            spans.append((wait["from"], wait["until"]))
    return spans
