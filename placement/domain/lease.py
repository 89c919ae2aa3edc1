"""A lease: a tenant's right to named GPU slots until its expiry.

Its workload is also its correlation. What a node reports may come late, twice or in any order;
once ended a lease never changes again.
"""

from __future__ import annotations

from chassis.aggregates import Aggregate, FirstEvent
from placement import policy
from placement.policy import EndCause, HoldRequest, Order, Release, RunState, RunStatus

HELD, LAPSED, REFUSED = "held", "lapsed", "refused"
BOUND, ACTIVE, DRAINING, ENDED = "bound", "active", "draining", "ended"
OPEN = frozenset({BOUND, ACTIVE, DRAINING})


class Lease(Aggregate):
    TOPIC = "placement.lease"

    def __init__(
        self,
        tenant_id: str,
        correlation_id: str,
        workload_id: str,
        node_id: str,
        gpu_model: str,
        slots: list[int],
        expires_at: int,
    ) -> None:
        self.tenant_id = tenant_id
        self.correlation_id = correlation_id
        self.workload_id = workload_id
        self.node_id = node_id
        self.gpu_model = gpu_model
        self.slots = slots
        self.expires_at = expires_at
        self.status = HELD
        self.project = ""
        self.fencing_token = 0
        self.manifest = ""
        self.release_sha256 = ""
        self.seconds_max = 0
        self.bound_at = 0
        self.activated_at = 0
        # The longest run that the node has confirmed in a recorded event.
        self.run_us = 0
        self.constraint = ""
        self.drain_cause = ""
        self.grace_us = 0
        self.cause = ""
        self.detail = ""
        self.exit_code = 0
        self.ended_at = 0

    @property
    def is_open(self) -> bool:
        """Its slots belong to it and its node is told about it."""
        return self.status in OPEN

    @property
    def is_over(self) -> bool:
        return self.status in (LAPSED, REFUSED, ENDED)

    @classmethod
    def hold(
        cls, request: HoldRequest, *, node_id: str, slots: tuple[int, ...], expires_at: int, at: int
    ) -> Lease:
        return cls._create(
            cls.Held,
            id=request.lease_id,
            timestamp=at,
            tenant_id=request.tenant_id,
            correlation_id=request.correlation_id,
            workload_id=request.workload_id,
            node_id=node_id,
            gpu_model=request.gpu_model,
            slots=list(slots),
            expires_at=expires_at,
        )

    class Held(FirstEvent):
        TOPIC = "placement.lease.held"
        tenant_id: str
        correlation_id: str
        workload_id: str
        node_id: str
        gpu_model: str
        slots: list[int]
        expires_at: int

    def lapse(self, cause: str, *, at: int) -> None:
        if self.status == HELD:
            self.trigger_event(self.Lapsed, timestamp=at, cause=cause)

    class Lapsed(Aggregate.Event):
        TOPIC = "placement.lease.lapsed"
        cause: str

        def apply(self, lease: Lease) -> None:
            lease.status = LAPSED
            lease.cause = self.cause

    def bind(
        self,
        release: Release,
        *,
        node_id: str,
        slots: tuple[int, ...],
        fencing_token: int,
        expires_at: int,
        at: int,
    ) -> None:
        """Make the hold, or other slots if it lapsed, the tenant's."""
        self.trigger_event(
            self.Bound,
            timestamp=at,
            workload_id=self.workload_id,
            project=release.project,
            env=release.env,
            node_id=node_id,
            gpu_model=self.gpu_model,
            slots=list(slots),
            fencing_token=fencing_token,
            expires_at=expires_at,
            manifest=release.manifest,
            release_sha256=release.sha256,
            type_version=release.type_version,
            seconds_max=release.seconds_max,
        )

    class Bound(Aggregate.Event):
        TOPIC = "placement.lease.bound"
        workload_id: str
        project: str
        env: str
        node_id: str
        gpu_model: str
        slots: list[int]
        fencing_token: int
        expires_at: int
        manifest: str
        release_sha256: str
        type_version: str
        seconds_max: int

        def apply(self, lease: Lease) -> None:
            lease.status = BOUND
            lease.cause = ""
            lease.project = self.project
            lease.node_id = self.node_id
            lease.slots = self.slots
            lease.fencing_token = self.fencing_token
            lease.expires_at = self.expires_at
            lease.manifest = self.manifest
            lease.release_sha256 = self.release_sha256
            lease.seconds_max = self.seconds_max
            lease.bound_at = self.timestamp

    def refuse_binding(self, cause: str, *, at: int) -> None:
        self.trigger_event(
            self.BindRefused, timestamp=at, workload_id=self.workload_id, cause=cause
        )

    class BindRefused(Aggregate.Event):
        TOPIC = "placement.lease.bind_refused"
        workload_id: str
        cause: str

        def apply(self, lease: Lease) -> None:
            lease.status = REFUSED
            lease.cause = self.cause

    def fail(self, detail: str, *, at: int) -> None:
        """End a lease that can never start; trying again would change nothing."""
        self._end(EndCause.START_FAILED, run_us=0, exit_code=0, detail=detail, at=at)

    def report(
        self, status: RunStatus, *, boot_id: str, delivered_at: int, lease_us: int, at: int
    ) -> None:
        """Take in what the node says of this lease."""
        ran = status.state is not RunState.START_FAILED and status.run_us > 0
        if not self.activated_at and (ran or status.state is RunState.RUNNING):
            self._activate(status.run_us, boot_id=boot_id, delivered_at=delivered_at, at=at)
        if status.state is RunState.RUNNING:
            self._renew(status.run_us, lease_us=lease_us, at=at)
        else:
            self._end(
                policy.end_cause(status, self.drain_cause),
                run_us=status.run_us,
                exit_code=status.exit_code,
                detail=status.error,
                at=at,
            )

    def _activate(self, run_us: int, *, boot_id: str, delivered_at: int, at: int) -> None:
        self.trigger_event(
            self.Activated,
            timestamp=at,
            workload_id=self.workload_id,
            project=self.project,
            node_id=self.node_id,
            gpu_model=self.gpu_model,
            gpu_count=len(self.slots),
            fencing_token=self.fencing_token,
            activated_at=policy.start(
                bound_at=self.bound_at, delivered_at=delivered_at, run_us=run_us, at=at
            ),
            boot_id=boot_id,
            run_us=run_us,
            slots=list(self.slots),
            # Whole GPUs on demand are all that is leased today.
            share_n=1,
            share_d=1,
            form="",
            region="",
            market="on_demand",
            sla_tier="",
        )

    class Activated(Aggregate.Event):
        TOPIC = "placement.lease.activated"
        workload_id: str
        project: str
        node_id: str
        gpu_model: str
        gpu_count: int
        fencing_token: int
        activated_at: int
        boot_id: str
        run_us: int
        slots: list[int]
        share_n: int
        share_d: int
        form: str
        region: str
        market: str
        sla_tier: str

        def apply(self, lease: Lease) -> None:
            if lease.status == BOUND:
                lease.status = ACTIVE
            lease.activated_at = self.activated_at
            lease.run_us = self.run_us

    def _renew(self, run_us: int, *, lease_us: int, at: int) -> None:
        if self.status != ACTIVE:
            return
        expires_at = policy.renewal(
            expires_at=self.expires_at,
            activated_at=self.activated_at,
            seconds_max=self.seconds_max,
            lease_us=lease_us,
            at=at,
        )
        if expires_at is not None:
            self.trigger_event(
                self.Renewed, timestamp=at, expires_at=expires_at, run_us=max(run_us, self.run_us)
            )

    class Renewed(Aggregate.Event):
        TOPIC = "placement.lease.renewed"
        expires_at: int
        run_us: int

        def apply(self, lease: Lease) -> None:
            lease.expires_at = self.expires_at
            lease.run_us = self.run_us

    def constrain(self, step: str, cause: str, *, at: int) -> None:
        if self.is_open and step != self.constraint:
            self.trigger_event(self.Constrained, timestamp=at, step=step, cause=cause)

    class Constrained(Aggregate.Event):
        TOPIC = "placement.lease.constrained"
        step: str
        cause: str

        def apply(self, lease: Lease) -> None:
            lease.constraint = self.step

    def drain(self, cause: EndCause, *, at: int) -> None:
        """Ask for the end. The first cause stays: it is what ended the lease."""
        if self.status in (BOUND, ACTIVE):
            self.trigger_event(
                self.DrainRequested,
                timestamp=at,
                cause=cause.value,
                grace_us=policy.DRAIN_GRACE_US,
            )

    class DrainRequested(Aggregate.Event):
        TOPIC = "placement.lease.drain_requested"
        cause: str
        grace_us: int

        def apply(self, lease: Lease) -> None:
            lease.status = DRAINING
            lease.drain_cause = self.cause
            lease.grace_us = self.grace_us

    def lose(self, run_us: int, *, node_silent: bool, at: int) -> None:
        """Its expiry passed without a word; what was confirmed until then is what counts."""
        cause = policy.loss_cause(activated_at=self.activated_at, node_silent=node_silent)
        self._end(cause, run_us=max(run_us, self.run_us), exit_code=-1, detail="", at=at)

    def _end(self, cause: EndCause, *, run_us: int, exit_code: int, detail: str, at: int) -> None:
        ended_at, clamped = at, False
        if self.activated_at:
            end = policy.end(
                activated_at=self.activated_at, run_us=run_us, expires_at=self.expires_at, at=at
            )
            ended_at, clamped = end.ended_at, end.clamped
        self.trigger_event(
            self.Ended,
            timestamp=at,
            workload_id=self.workload_id,
            cause=cause.value,
            exit_code=exit_code,
            activated_at=self.activated_at,
            ended_at=ended_at,
            clamped=clamped,
            detail=detail[: policy.DETAIL_CHARACTERS_MAX],
        )

    class Ended(Aggregate.Event):
        TOPIC = "placement.lease.ended"
        workload_id: str
        cause: str
        exit_code: int
        activated_at: int
        ended_at: int
        clamped: bool
        detail: str

        def apply(self, lease: Lease) -> None:
            lease.status = ENDED
            lease.cause = self.cause
            lease.detail = self.detail
            lease.exit_code = self.exit_code
            lease.ended_at = self.ended_at
            # The event keeps it; nobody runs it again.
            lease.manifest = ""

    def order(self) -> Order:
        return Order(
            lease_id=self.id,
            tenant_id=self.tenant_id,
            correlation_id=self.correlation_id,
            fencing_token=self.fencing_token,
            slots=tuple(self.slots),
            manifest=self.manifest,
            run=self.status != DRAINING,
            grace_us=self.grace_us,
            expires_at=self.expires_at,
            constraint=self.constraint,
            stop_cause=self.drain_cause,
        )
