"""Sources and the instances rented from them.

``Instance.Requested`` is recorded before the provider is called, so that whatever happens to the
call, somebody looks for the VM by its tag. An instance is gone when the provider no longer lists
it, not when we asked for that.
"""

from __future__ import annotations

from aggregator.policy import Machine, Orphan, tag_of
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Refused


class Source(Aggregate):
    TOPIC = "aggregator.source"

    def __init__(self, name: str, provider: str, endpoint: str) -> None:
        self.name = name
        self.provider = provider
        self.endpoint = endpoint
        self.orphans: dict[str, str] = {}

    class Onboarded(FirstEvent):
        TOPIC = "aggregator.source.onboarded"
        name: str
        provider: str
        endpoint: str

    @classmethod
    def onboard(cls, source_id: str, name: str, provider: str, endpoint: str, *, at: int) -> Source:
        return cls._create(
            cls.Onboarded,
            id=source_id,
            name=name,
            provider=provider,
            endpoint=endpoint,
            timestamp=at,
        )

    def note_orphans(self, found: list[Orphan], *, at: int) -> None:
        """Record what is new since the last audit, and what has been cleared."""
        now = {f"{orphan.kind}:{orphan.provider_id}": orphan for orphan in found}
        for key, orphan in now.items():
            if key not in self.orphans:
                self.trigger_event(
                    self.OrphanFound,
                    provider_id=orphan.provider_id,
                    kind=str(orphan.kind),
                    tag=orphan.tag,
                    price_nanos_per_hour=orphan.price_nanos_per_hour,
                    currency=orphan.currency,
                    timestamp=at,
                )
        for key in [key for key in self.orphans if key not in now]:
            self.trigger_event(self.OrphanCleared, provider_id=key.partition(":")[2], timestamp=at)

    class OrphanFound(Aggregate.Event):
        TOPIC = "aggregator.source.orphan_found"
        provider_id: str
        kind: str
        tag: str
        price_nanos_per_hour: int
        currency: str

        def apply(self, source: Source) -> None:
            source.orphans[f"{self.kind}:{self.provider_id}"] = self.tag

    class OrphanCleared(Aggregate.Event):
        TOPIC = "aggregator.source.orphan_cleared"
        provider_id: str

        def apply(self, source: Source) -> None:
            source.orphans = {
                key: tag
                for key, tag in source.orphans.items()
                if key.partition(":")[2] != self.provider_id
            }


class Instance(Aggregate):
    TOPIC = "aggregator.instance"

    def __init__(self, source_id: str, offer: str, tag: str) -> None:
        self.source_id = source_id
        self.offer = offer
        self.tag = tag
        self.status = "requested"
        self.provider_id = ""
        self.price_nanos_per_hour = 0
        self.currency = ""
        self.cause = ""

    class Requested(FirstEvent):
        TOPIC = "aggregator.instance.requested"
        source_id: str
        offer: str
        tag: str

    @classmethod
    def request(cls, instance_id: str, source_id: str, offer: str, *, at: int) -> Instance:
        return cls._create(
            cls.Requested,
            id=instance_id,
            source_id=source_id,
            offer=offer,
            tag=tag_of(instance_id),
            timestamp=at,
        )

    def create(self, machine: Machine, *, found_by_tag: bool, at: int) -> None:
        if self.status != "requested":
            return
        self.trigger_event(
            self.Created,
            provider_id=machine.provider_id,
            found_by_tag=found_by_tag,
            price_nanos_per_hour=machine.price_nanos_per_hour,
            currency=machine.currency,
            source_id=self.source_id,
            offer=self.offer,
            gpu_model=machine.gpu_model,
            gpu_count=machine.gpu_count,
            timestamp=at,
        )

    class Created(Aggregate.Event):
        TOPIC = "aggregator.instance.created"
        provider_id: str
        found_by_tag: bool
        price_nanos_per_hour: int
        currency: str
        source_id: str
        offer: str
        gpu_model: str
        gpu_count: int

        def apply(self, instance: Instance) -> None:
            instance.status = "running"
            instance.provider_id = self.provider_id
            instance.price_nanos_per_hour = self.price_nanos_per_hour
            instance.currency = self.currency

    def fail(self, cause: str, *, at: int) -> None:
        if self.status == "requested":
            self.trigger_event(self.Failed, cause=cause, timestamp=at)

    class Failed(Aggregate.Event):
        TOPIC = "aggregator.instance.failed"
        cause: str

        def apply(self, instance: Instance) -> None:
            instance.status = "failed"
            instance.cause = self.cause

    def terminate(self, cause: str, *, at: int) -> None:
        if self.status == "terminating":
            return
        if self.status != "running":
            raise Refused(f"the instance is {self.status}, not running", code="NOT_RUNNING")
        self.trigger_event(self.TerminationRequested, cause=cause, timestamp=at)

    class TerminationRequested(Aggregate.Event):
        TOPIC = "aggregator.instance.termination_requested"
        cause: str

        def apply(self, instance: Instance) -> None:
            instance.status = "terminating"
            instance.cause = self.cause

    def lose(self, *, at: int) -> None:
        """The provider no longer lists it."""
        if self.status == "terminating":
            self.trigger_event(self.Gone, timestamp=at)

    class Gone(Aggregate.Event):
        TOPIC = "aggregator.instance.gone"

        def apply(self, instance: Instance) -> None:
            instance.status = "gone"
