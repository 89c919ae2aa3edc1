"""An intent being governed, from submission to the end of its lease.

While it waits exactly one of its waits is open, and the waits touch: every pending microsecond
has one reason.
"""

from __future__ import annotations

from typing import Any

from admission import intents, policy
from admission.domain.problems import invalid, refused
from admission.policy import Allowance, Denial, PendingReason, State, Step
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Refused


class Workload(Aggregate):
    TOPIC = "admission.workload"

    def __init__(self, tenant_id: str, intent: dict[str, Any], timestamp: int) -> None:
        self.tenant_id = tenant_id
        self.correlation_id = self.id
        self.intent = intent
        self.status: str = State.QUEUED.value
        self.attempt = 1
        self.lease_id = ""
        self.waits: list[dict[str, Any]] = []
        self.submitted_at = timestamp
        self.admitted_at = 0
        self.started_at = 0
        self.ended_at = 0
        self.exit_code = 0
        self.cause = ""
        self._wait(timestamp, PendingReason.PRIORITY.value, "waiting for its turn")

    class Submitted(FirstEvent):
        TOPIC = "admission.workload.submitted"
        tenant_id: str
        intent: dict[str, Any]

    @classmethod
    def submit(
        cls,
        workload_id: str,
        tenant_id: str,
        intent: dict[str, Any],
        allowance: Allowance,
        *,
        at: int,
    ) -> Workload:
        if problem := intents.intent_problem(intent):
            raise invalid(problem)
        if problem := policy.submission_problem(intents.request_of(intent), allowance):
            raise refused(problem)
        return cls._create(
            cls.Submitted, id=workload_id, timestamp=at, tenant_id=tenant_id, intent=intent
        )

    @property
    def request(self) -> intents.Request:
        return intents.request_of(self.intent)

    @property
    def lease_id_next(self) -> str:
        """The lease it waits for."""
        return policy.lease_id(self.id, self.attempt)

    @property
    def reason(self) -> str:
        return str(self.waits[-1]["reason"]) if self.status == State.QUEUED else ""

    @property
    def detail(self) -> str:
        return str(self.waits[-1]["detail"]) if self.status == State.QUEUED else ""

    def awaits(self, lease_id: str) -> bool:
        return self.status == State.QUEUED and lease_id == self.lease_id_next

    def defer(self, denial: Denial, *, at: int) -> None:
        """Only a change of the reason is recorded; its numbers are asked for when needed."""
        if not policy.may(self.status, Step.DEFER) or self._waits_for(denial):
            return
        self.trigger_event(
            self.Deferred, timestamp=at, reason=denial.reason.value, detail=denial.detail
        )

    class Deferred(Aggregate.Event):
        TOPIC = "admission.workload.deferred"
        reason: str
        detail: str

        def apply(self, workload: Workload) -> None:
            workload._wait(self.timestamp, self.reason, self.detail)

    def _waits_for(self, denial: Denial) -> bool:
        # Which dependency fails is the reason itself, not a number behind it.
        same_detail = denial.reason != PendingReason.HELD or denial.detail == self.detail
        return denial.reason == self.reason and same_detail

    def admit(self, lease_id: str, allowance: Allowance, *, at: int) -> Denial | None:
        """Admit under the lease whose holds are in hand, or say why not."""
        if not self.awaits(lease_id):
            raise Refused(f"{self.id} does not wait for {lease_id}", code="NOT_AWAITED")
        if denial := policy.denial(self.request, allowance):
            return denial
        self.trigger_event(self.Admitted, timestamp=at, lease_id=lease_id, intent=self.intent)
        return None

    class Admitted(Aggregate.Event):
        TOPIC = "admission.workload.admitted"
        lease_id: str
        intent: dict[str, Any]

        def apply(self, workload: Workload) -> None:
            workload.status = State.ADMITTED.value
            workload.lease_id = self.lease_id
            workload.admitted_at = self.timestamp
            workload._stop_waiting(self.timestamp)

    def lose_hold(self, lease_id: str, cause: str, *, at: int) -> None:
        """The hold it would have been admitted with is gone; the next one has another id.

        Once it is admitted, placement alone decides what becomes of the lease.
        """
        if self.awaits(lease_id):
            self._requeue(lease_id, cause, at)

    def lose_lease(self, lease_id: str, cause: str, *, at: int) -> None:
        """The lease could not be bound: wait again, or end if it was to stop anyway."""
        if lease_id != self.lease_id or not policy.may(self.status, Step.REQUEUE):
            return
        if self.status == State.STOPPING:
            self._end("STOPPED", 0, at, at=at)
        else:
            self._requeue(lease_id, cause, at)

    def _requeue(self, lease_id: str, cause: str, at: int) -> None:
        self.trigger_event(
            self.Requeued, timestamp=at, lease_id=lease_id, cause=cause, attempt=self.attempt + 1
        )

    class Requeued(Aggregate.Event):
        TOPIC = "admission.workload.requeued"
        lease_id: str
        cause: str
        attempt: int

        def apply(self, workload: Workload) -> None:
            workload.attempt = self.attempt
            workload.lease_id = ""
            if workload.status != State.QUEUED:
                workload.status = State.QUEUED.value
                detail = f"waiting for its turn again: {self.cause}"
                workload._wait(self.timestamp, PendingReason.PRIORITY.value, detail)

    def start(self, lease_id: str, started_at: int, *, at: int) -> None:
        known = lease_id == self.lease_id and not self.started_at
        if known and policy.may(self.status, Step.START):
            self.trigger_event(self.Started, timestamp=at, lease_id=lease_id, started_at=started_at)

    class Started(Aggregate.Event):
        TOPIC = "admission.workload.started"
        lease_id: str
        started_at: int

        def apply(self, workload: Workload) -> None:
            workload.started_at = self.started_at
            if workload.status == State.ADMITTED:
                workload.status = State.RUNNING.value

    def stop(self, cause: str, *, at: int) -> None:
        """Ask for its end; a workload without a lease ends at once."""
        if not policy.may(self.status, Step.STOP):
            return
        waiting = self.status == State.QUEUED
        self.trigger_event(self.StopRequested, timestamp=at, lease_id=self.lease_id, cause=cause)
        if waiting:
            self._end("STOPPED", 0, at, at=at)

    class StopRequested(Aggregate.Event):
        TOPIC = "admission.workload.stop_requested"
        lease_id: str
        cause: str

        def apply(self, workload: Workload) -> None:
            if workload.lease_id:
                workload.status = State.STOPPING.value

    def end(self, lease_id: str, cause: str, exit_code: int, ended_at: int, *, at: int) -> None:
        if lease_id == self.lease_id and policy.may(self.status, Step.END):
            self._end(cause, exit_code, ended_at, at=at)

    def _end(self, cause: str, exit_code: int, ended_at: int, *, at: int) -> None:
        self.trigger_event(
            self.Ended,
            timestamp=at,
            lease_id=self.lease_id,
            outcome=policy.outcome(cause, exit_code).value,
            cause=cause,
            exit_code=exit_code,
            ended_at=ended_at,
        )

    class Ended(Aggregate.Event):
        TOPIC = "admission.workload.ended"
        lease_id: str
        outcome: str
        cause: str
        exit_code: int
        ended_at: int

        def apply(self, workload: Workload) -> None:
            if workload.status == State.QUEUED:
                workload._stop_waiting(self.timestamp)
            workload.status = self.outcome
            workload.cause = self.cause
            workload.exit_code = self.exit_code
            workload.ended_at = self.ended_at

    def _wait(self, since: int, reason: str, detail: str) -> None:
        if self.waits and not self.waits[-1]["until"]:
            self._stop_waiting(since)
        self.waits.append({"from": since, "until": 0, "reason": reason, "detail": detail})

    def _stop_waiting(self, until: int) -> None:
        self.waits[-1]["until"] = until
