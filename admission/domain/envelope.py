"""Everything a tenant may hold, one versioned object. A change never touches what runs."""

from __future__ import annotations

from admission import policy
from admission.domain.problems import invalid
from chassis.aggregates import Aggregate, FirstEvent


class Envelope(Aggregate):
    TOPIC = "admission.envelope"

    def __init__(
        self, tenant_id: str, gpu_quota: dict[str, int], tier: str, traits: list[str]
    ) -> None:
        self.tenant_id = tenant_id
        self.gpu_quota = gpu_quota
        self.tier = tier
        self.traits = traits
        self.suspended = False

    class Granted(FirstEvent):
        TOPIC = "admission.envelope.granted"
        tenant_id: str
        gpu_quota: dict[str, int]
        tier: str
        traits: list[str]

    @staticmethod
    def id_of(tenant_id: str) -> str:
        return f"env_{tenant_id}"

    @classmethod
    def grant(cls, tenant_id: str, gpu_quota: dict[str, int], tier: str, *, at: int) -> Envelope:
        return cls._create(
            cls.Granted,
            id=cls.id_of(tenant_id),
            timestamp=at,
            tenant_id=tenant_id,
            gpu_quota=dict(gpu_quota),
            tier=tier,
            traits=[],
        )

    def change(self, gpu_quota: dict[str, int], tier: str, traits: list[str], *, at: int) -> None:
        """Takes effect at the next admission; what runs goes on."""
        if problem := policy.envelope_problem(gpu_quota, tier, traits):
            raise invalid(problem)
        if (gpu_quota, tier, traits) != (self.gpu_quota, self.tier, self.traits):
            self.trigger_event(
                self.Changed, timestamp=at, gpu_quota=gpu_quota, tier=tier, traits=traits
            )

    class Changed(Aggregate.Event):
        TOPIC = "admission.envelope.changed"
        gpu_quota: dict[str, int]
        tier: str
        traits: list[str]

        def apply(self, envelope: Envelope) -> None:
            envelope.gpu_quota = self.gpu_quota
            envelope.tier = self.tier
            envelope.traits = self.traits

    def suspend(self, cause: str, *, at: int) -> None:
        if not self.suspended:
            self.trigger_event(self.Suspended, timestamp=at, cause=cause)

    class Suspended(Aggregate.Event):
        TOPIC = "admission.envelope.suspended"
        cause: str

        def apply(self, envelope: Envelope) -> None:
            envelope.suspended = True

    def resume(self, *, at: int) -> None:
        if self.suspended:
            self.trigger_event(self.Resumed, timestamp=at)

    class Resumed(Aggregate.Event):
        TOPIC = "admission.envelope.resumed"

        def apply(self, envelope: Envelope) -> None:
            envelope.suspended = False
