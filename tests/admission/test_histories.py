"""Random histories: whatever is asked, reported or answered, in any order, the laws hold."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from admission import policy
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


class Histories(RuleBasedStateMachine):
    leases = Bundle("leases")

    @initialize(quota=st.integers(4, 8), lines=st.lists(st.tuples(tenants, counts), max_size=9))
    def begin(self, quota: int, lines: list[tuple[str, int]]) -> None:
        self.stage = Stage(*TENANTS, quota=quota)
        self.admission = self.stage.admission
        for tenant, count in lines:
            self.stage.submit(tenant, count)

    @rule(tenant=tenants, count=counts, seconds=st.integers(0, 2), copies=st.integers(1, 4))
    def submit(self, tenant: str, count: int, seconds: int, copies: int) -> None:
        codes = {"SECONDS_MAX", "NEVER_FITS", "NOT_ENTITLED", "TENANT_SUSPENDED"}
        for _ in range(copies):
            with refusals_for(codes):
                self.stage.submit(tenant, count, seconds_max=seconds)

    @rule(target=leases, kinds=st.lists(st.integers(0, 9), min_size=9, max_size=9))
    def round(self, kinds: list[int]) -> Any:
        candidates = self.stage.choose(9)
        self.stage.settle(*map(answered, candidates, kinds))
        return multiple(*[c.lease_id for c in candidates])

    @rule(target=leases, tenant=tenants, quota=st.integers(0, 8))
    def round_with_another_quota_between(self, tenant: str, quota: int) -> Any:
        candidates = self.stage.choose(9)
        self.stage.set_quota(tenant, H100=quota)
        self.stage.settle(*map(granted, candidates))
        return multiple(*[c.lease_id for c in candidates])

    @rule(target=leases, which=st.integers(0, 2))
    def round_with_a_hold_lost_between(self, which: int) -> Any:
        candidates = self.stage.choose(9)
        keys = [candidate.lease_id for candidate in candidates]
        if which < len(keys):
            self.stage.run(lambda at: self.admission.lose_hold(keys[which], "EXPIRED", at=at))
        self.stage.settle(*map(granted, candidates))
        return multiple(*keys)

    @rule(tenant=tenants, kind=st.integers(0, 9))
    def round_with_a_tenant_suspended(self, tenant: str, kind: int) -> None:
        self.stage.run(lambda at: self.admission.suspend(tenant, "unpaid", at=at))
        self.stage.settle(*[answered(c, kind) for c in self.stage.choose(9)])
        self.stage.run(lambda at: self.admission.resume(tenant, at=at))

    @rule(key=leases, kind=st.sampled_from(["lose hold", "lose lease", "start", "end", "end"]))
    def report(self, key: str, kind: str) -> None:
        lease = self.admission
        reports: dict[str, Callable[[int], object]] = {
            "lose hold": lambda at: lease.lose_hold(key, "EXPIRED", at=at),
            "lose lease": lambda at: lease.lose_lease(key, "CAPACITY", at=at),
            "start": lambda at: lease.start(key, at, at=at),
            "end": lambda at: lease.end(key, "EXITED", 0, at, at=at),
        }
        if kind == "lose hold":
            self.stage.run(reports[kind])
        else:
            with self.only_if_it_is_the_current(key):
                self.stage.run(reports[kind])

    @contextmanager
    def only_if_it_is_the_current(self, lease_id: str) -> Iterator[None]:
        before = len(self.stage.log.events)
        current = self.stage.workload(policy.workload_id(lease_id)).lease_id
        yield
        assert lease_id == current or len(self.stage.log.events) == before

    @rule(number=st.integers(1, 12), tenant=tenants)
    def stop(self, number: int, tenant: str) -> None:
        with refusals_for({"WORKLOAD_NOT_FOUND"}):
            self.stage.run(lambda at: self.admission.stop(f"wl_{number}", tenant, at=at))

    @invariant()
    def no_admission_passes_the_quota_or_the_line_and_usage_equals_a_recount(self) -> None:
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
        live = self.stage.admission.state()
        assert self.stage.rebuilt().state() == live
        restored = Admission(self.stage.log)
        restored.load(self.stage.admission.snapshot())
        assert restored.state() == live

    def workloads(self) -> list[Workload]:
        topics = [(e.topic, e.aggregate_id) for e in self.stage.log.events]
        return [self.stage.workload(key) for topic, key in topics if topic.endswith("submitted")]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


@contextmanager
def refusals_for(codes: set[str]) -> Iterator[None]:
    try:
        yield
    except ServiceError as refusal:
        if refusal.code not in codes:
            raise


class Recount:
    """Quota in use, counted again from the events, and every admission checked on the way."""

    def __init__(self) -> None:
        self.quota: dict[str, dict[str, int]] = {}
        self.held: dict[str, tuple[str, str, int]] = {}
        self.places: dict[str, tuple[str, int]] = {}
        self.waiting: set[str] = set()
        self.attempts: Counter[str] = Counter()

    def take(self, topic: str, data: dict[str, Any]) -> None:
        tenant, key = data["meta"]["tenant_id"], data["meta"]["aggregate_id"]
        if "gpu_quota" in data:
            self.quota[tenant] = data["gpu_quota"]
        match topic.rpartition(".")[2]:
            case "submitted":
                self.places[key] = (tenant, len(self.places))
                self.waiting.add(key)
            case "requeued":
                self.attempts[key] += 1
                self.held.pop(key, None)
                self.waiting.add(key)
            case "ended":
                self.held.pop(key, None)
                self.waiting.discard(key)
            case "admitted":
                self.admit(tenant, key, data)

    def admit(self, tenant: str, key: str, data: dict[str, Any]) -> None:
        line = {place: k for k in self.waiting for t, place in [self.places[k]] if t == tenant}
        assert line[min(line)] == key, "somebody was passed"
        assert data["lease_id"] == policy.lease_id(key, self.attempts[key] + 1)
        self.waiting.remove(key)
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
