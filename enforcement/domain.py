"""A guard: the watch over one lease, and the step of the ladder it has taken.

A step is taken once and lifted once; readings in between change nothing that is recorded.
"""

from __future__ import annotations

from chassis.aggregates import Aggregate, FirstEvent
from enforcement.policy import THROTTLE, WINDOW_SAMPLES, Sample


def guard_id(lease_id: str) -> str:
    return f"grd_{lease_id}"


class Guard(Aggregate):
    TOPIC = "enforcement.guard"

    def __init__(
        self, tenant_id: str, correlation_id: str, node_id: str, workload_id: str, slots: list[int]
    ) -> None:
        self.tenant_id = tenant_id
        self.correlation_id = correlation_id
        self.node_id = node_id
        self.workload_id = workload_id
        self.slots = slots
        self.step = ""
        self.lowered = False

    class Raised(FirstEvent):
        TOPIC = "enforcement.guard.raised"
        tenant_id: str
        correlation_id: str
        node_id: str
        workload_id: str
        slots: list[int]

    @classmethod
    def raise_over(
        cls,
        lease_id: str,
        *,
        tenant_id: str,
        correlation_id: str,
        node_id: str,
        workload_id: str,
        slots: list[int],
        at: int,
    ) -> Guard:
        return cls._create(
            cls.Raised,
            id=guard_id(lease_id),
            tenant_id=tenant_id,
            correlation_id=correlation_id,
            node_id=node_id,
            workload_id=workload_id,
            slots=slots,
            timestamp=at,
        )

    def press(self, sample: Sample, *, at: int) -> None:
        """Memory stayed over the threshold: take the first step, unless it is taken."""
        if self.step or self.lowered:
            return
        self.trigger_event(
            self.PressureDetected,
            memory_bytes_used=sample.memory_bytes_used,
            memory_bytes_total=sample.memory_bytes_total,
            samples=WINDOW_SAMPLES,
            timestamp=at,
        )
        self.trigger_event(self.StepTaken, step=THROTTLE, cause="MEMORY_PRESSURE", timestamp=at)

    class PressureDetected(Aggregate.Event):
        TOPIC = "enforcement.guard.pressure_detected"
        memory_bytes_used: int
        memory_bytes_total: int
        samples: int

    class StepTaken(Aggregate.Event):
        TOPIC = "enforcement.guard.step_taken"
        step: str
        cause: str

        def apply(self, guard: Guard) -> None:
            guard.step = self.step

    def recover(self, *, at: int) -> None:
        if self.step and not self.lowered:
            self.trigger_event(self.Recovered, step=self.step, timestamp=at)

    class Recovered(Aggregate.Event):
        TOPIC = "enforcement.guard.recovered"
        step: str

        def apply(self, guard: Guard) -> None:
            guard.step = ""

    def lower(self, *, at: int) -> None:
        if not self.lowered:
            self.trigger_event(self.Lowered, timestamp=at)

    class Lowered(Aggregate.Event):
        TOPIC = "enforcement.guard.lowered"

        def apply(self, guard: Guard) -> None:
            guard.lowered = True
            guard.step = ""
