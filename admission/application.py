"""Loads envelopes and workloads, gives them one command, saves what happened; and answers.

Commands that reactions give are idempotent and total. Whatever may let somebody start is noted
in ``woken`` and told to ``on_change``; neither is state: a new process considers everybody.
``on_change`` is called on the writer's thread, before the commit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from admission import policy
from admission.domain import Envelope, Workload
from admission.policy import Allowance, Denial, PendingReason, State
from admission.projections import Queue, UsageByTenant, WorkloadsByTenant
from chassis.application import Application, Log
from chassis.errors import NotFound, Refused, Unavailable

STARTER_TIER = "standard"


@dataclass(slots=True)
class Woken:
    """Whose situation has changed since the last round looked at it."""

    tenants: set[str] = field(default_factory=set)
    everybody: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    workload: Workload
    quota: int
    used: int
    ahead: int
    remedies: list[str]


class Admission(Application):
    service = "admission"
    aggregates = (Envelope, Workload)

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.starter_quota: dict[str, int] = {}
        self.on_change: Callable[[], None] = lambda: None
        self.woken = Woken()
        self.queue = Queue()
        self.usage = UsageByTenant()
        self.by_tenant = WorkloadsByTenant()
        self.views = {
            "queue": self.queue,
            "usage_by_tenant": self.usage,
            "workloads_by_tenant": self.by_tenant,
        }

    # Envelopes.

    def enroll(self, tenant_id: str, *, at: int) -> None:
        if self.find(Envelope, Envelope.id_of(tenant_id)) is None:
            self.save(Envelope.grant(tenant_id, self.starter_quota, STARTER_TIER, at=at))

    def suspend(self, tenant_id: str, cause: str, *, at: int) -> None:
        if envelope := self.find(Envelope, Envelope.id_of(tenant_id)):
            envelope.suspend(cause, at=at)
            self.save(envelope)
            self._wake(tenant_id)

    def resume(self, tenant_id: str, *, at: int) -> None:
        if envelope := self.find(Envelope, Envelope.id_of(tenant_id)):
            envelope.resume(at=at)
            self.save(envelope)
            self._wake(tenant_id)

    def set_envelope(
        self,
        tenant_id: str,
        gpu_quota: dict[str, int],
        tier: str,
        traits: list[str],
        *,
        version: int = 0,
        at: int,
    ) -> Envelope:
        envelope = self.envelope(tenant_id)
        if version not in (0, envelope.version):
            stale = f"the envelope has version {envelope.version}, not {version}"
            raise Refused(stale, code="ENVELOPE_VERSION", version=str(envelope.version))
        envelope.change(gpu_quota, tier, traits, at=at)
        self.save(envelope)
        self._wake(tenant_id)
        return envelope

    # Workloads, as authors ask.

    def submit(
        self, workload_id: str, tenant_id: str, intent: dict[str, Any], *, at: int
    ) -> Workload:
        if self.find(Envelope, Envelope.id_of(tenant_id)) is None:
            pending = f"tenant {tenant_id} has no envelope yet; try again"
            raise Unavailable(pending, code="ENVELOPE_PENDING")
        allowance = self.allowance(tenant_id)
        workload = Workload.submit(workload_id, tenant_id, intent, allowance, at=at)
        self.save(workload)
        self._wake(tenant_id)
        return workload

    def stop(self, workload_id: str, tenant_id: str, *, at: int) -> Workload:
        """Stopping what is stopping or over changes nothing."""
        workload = self.workload(workload_id, tenant_id)
        workload.stop("REQUESTED", at=at)
        self.save(workload)
        self._wake(workload.tenant_id)
        return workload

    # Workloads, as the rounds decide.

    def defer(self, workload_id: str, denial: Denial, *, at: int) -> None:
        if workload := self.find(Workload, workload_id):
            workload.defer(denial, at=at)
            self.save(workload)

    def admit(self, lease_ids: Iterable[str], *, at: int) -> dict[str, Denial | None]:
        """Admit, in order, under leases whose holds are in hand; each answers by itself.

        Only the first in a tenant's line may be admitted, then the next. A lease that nobody
        waits for any more is not in the answer.
        """
        answers: dict[str, Denial | None] = {}
        # The views show what a command did only afterwards, so this one keeps count itself.
        allowances: dict[str, Allowance] = {}
        first: dict[str, int | None] = {}
        for lease_id in lease_ids:
            workload = self._of_lease(lease_id)
            if workload is None or not workload.awaits(lease_id):
                continue
            tenant_id, place = workload.tenant_id, self.queue.place(workload.id)
            if place != first.setdefault(tenant_id, self.queue.head(tenant_id)):
                answers[lease_id] = policy.BEHIND
                continue
            allowance = allowances.get(tenant_id) or self.allowance(tenant_id)
            answers[lease_id] = workload.admit(lease_id, allowance, at=at)
            if answers[lease_id] is None:
                first[tenant_id] = self.queue.behind(tenant_id, place)
                allowances[tenant_id] = allowance.after(workload.request)
                self.save(workload)
        return answers

    # Leases, as placement reports them.

    def lose_hold(self, lease_id: str, cause: str, *, at: int) -> None:
        if workload := self._of_lease(lease_id):
            workload.lose_hold(lease_id, cause, at=at)
            self.save(workload)
            self.wake_everybody()

    def lose_lease(self, lease_id: str, cause: str, *, at: int) -> Workload | None:
        """The workload if this ended it, because it was to stop anyway."""
        workload = self._of_lease(lease_id)
        if workload is None or workload.ended_at:
            return None
        workload.lose_lease(lease_id, cause, at=at)
        self.save(workload)
        self.wake_everybody()
        return workload if workload.ended_at else None

    def start(self, lease_id: str, started_at: int, *, at: int) -> None:
        if workload := self._of_lease(lease_id):
            workload.start(lease_id, started_at, at=at)
            self.save(workload)

    def end(
        self, lease_id: str, cause: str, exit_code: int, ended_at: int, *, at: int
    ) -> Workload | None:
        """The workload if this ended it."""
        workload = self._of_lease(lease_id)
        if workload is None or workload.ended_at:
            return None
        workload.end(lease_id, cause, exit_code, ended_at, at=at)
        self.save(workload)
        self.wake_everybody()
        return workload if workload.ended_at else None

    def wake_everybody(self) -> None:
        """Capacity may have changed."""
        self.woken.everybody = True
        self.on_change()

    # Queries.

    def envelope(self, tenant_id: str) -> Envelope:
        envelope = self.find(Envelope, Envelope.id_of(tenant_id))
        if envelope is None:
            raise NotFound(f"no envelope of tenant {tenant_id!r}", code="ENVELOPE_NOT_FOUND")
        return envelope

    def workload(self, workload_id: str, tenant_id: str = "") -> Workload:
        """Another tenant's workload does not exist; an empty tenant_id sees all."""
        workload = self.find(Workload, workload_id)
        if workload is None or tenant_id not in ("", workload.tenant_id):
            raise NotFound(f"no workload {workload_id!r}", code="WORKLOAD_NOT_FOUND")
        return workload

    def allowance(self, tenant_id: str) -> Allowance:
        envelope = self.envelope(tenant_id)
        return Allowance(
            envelope.gpu_quota,
            frozenset(envelope.traits),
            envelope.suspended,
            self.usage.of(tenant_id),
        )

    def position(self, workload: Workload) -> int:
        """From 1 while it waits, else 0."""
        if workload.status != State.QUEUED:
            return 0
        ahead = self.queue.ahead(workload.id)
        # The queue shows what a command submitted only afterwards, at its end.
        return (len(self.queue) if ahead is None else ahead) + 1

    def page(self, tenant_id: str, size: int, before: int) -> tuple[list[Workload], int]:
        ids, next_before = self.by_tenant.page(tenant_id, size, before)
        return [self.get(Workload, workload_id) for workload_id in ids], next_before

    def explain(self, workload_id: str, tenant_id: str = "") -> Explanation:
        workload = self.workload(workload_id, tenant_id)
        request, allowance = workload.request, self.allowance(workload.tenant_id)
        waits_for = [PendingReason(workload.reason)] if workload.reason else []
        return Explanation(
            workload=workload,
            quota=allowance.quota(request.gpu_model),
            used=allowance.held.get(request.gpu_model, 0),
            ahead=self.queue.ahead(workload_id) or 0,
            remedies=[
                remedy
                for reason in waits_for
                for remedy in policy.remedies(reason, request, allowance)
            ],
        )

    def _of_lease(self, lease_id: str) -> Workload | None:
        return self.find(Workload, policy.workload_id(lease_id))

    def _wake(self, tenant_id: str) -> None:
        self.woken.tenants.add(tenant_id)
        self.on_change()
