"""The aggregator's commands. None of them calls a provider: workflows do, and report back."""

from aggregator import policy
from aggregator.domain import Instance, Source
from aggregator.policy import Held, Inventory, Machine, Orphan
from aggregator.projections import Instances, Sources
from chassis.application import Application, Log
from chassis.errors import Invalid, Refused

PROVIDERS = ("simulated",)


class Aggregator(Application):
    service = "aggregator"
    aggregates = (Source, Instance)

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.sources = Sources()
        self.instances = Instances()
        self.views = {"sources": self.sources, "instances": self.instances}

    def onboard(
        self, source_id: str, name: str, provider: str, endpoint: str, *, at: int
    ) -> Source:
        if provider not in PROVIDERS:
            raise Invalid(
                f"no adapter for provider {provider!r}; there is {', '.join(PROVIDERS)}",
                code="UNKNOWN_PROVIDER",
                field="provider",
            )
        if known := self.sources.by_name.get(name):
            source = self.get(Source, known)
            if (source.provider, source.endpoint) != (provider, endpoint):
                raise Refused(f"source {name!r} exists with another endpoint", code="NAME_TAKEN")
            return source
        source = Source.onboard(source_id, name, provider, endpoint, at=at)
        self.save(source)
        return source

    def request_instance(
        self, instance_id: str, source_id: str, offer: str, *, at: int
    ) -> Instance:
        self.get(Source, source_id)
        instance = Instance.request(instance_id, source_id, offer, at=at)
        self.save(instance)
        return instance

    def created(self, instance_id: str, machine: Machine, *, found_by_tag: bool, at: int) -> None:
        instance = self.get(Instance, instance_id)
        instance.create(machine, found_by_tag=found_by_tag, at=at)
        self.save(instance)

    def failed(self, instance_id: str, cause: str, *, at: int) -> None:
        instance = self.get(Instance, instance_id)
        instance.fail(cause, at=at)
        self.save(instance)

    def terminate(self, instance_id: str, cause: str, *, at: int) -> Instance:
        instance = self.get(Instance, instance_id)
        instance.terminate(cause, at=at)
        self.save(instance)
        return instance

    def gone(self, instance_id: str, *, at: int) -> None:
        instance = self.get(Instance, instance_id)
        instance.lose(at=at)
        self.save(instance)

    def audit(self, source_id: str, inventory: Inventory, *, at: int) -> list[Orphan]:
        """Compare an inventory with ours and remember what changed. Nothing is touched."""
        source, held = self.get(Source, source_id), self._held(source_id)
        if policy.no_conclusion(inventory, held):
            return []
        found = policy.orphans(inventory, held, at=at)
        source.note_orphans(found, at=at)
        self.save(source)
        return found

    def no_conclusion(self, source_id: str, inventory: Inventory) -> str:
        return policy.no_conclusion(inventory, self._held(source_id))

    def all_sources(self) -> list[Source]:
        return [self.get(Source, source_id) for source_id in self.sources.by_name.values()]

    def all_instances(self) -> list[Instance]:
        return [self.get(Instance, instance_id) for instance_id in self.instances.sources]

    def unfinished(self) -> list[tuple[Instance, Source]]:
        """Instances that await a call to their provider, oldest first."""
        instances = [self.get(Instance, one) for one in self.instances.unfinished]
        return [(one, self.get(Source, one.source_id)) for one in instances]

    def _held(self, source_id: str) -> list[Held]:
        ids = [one for one, source in self.instances.sources.items() if source == source_id]
        instances = [self.get(Instance, one) for one in ids]
        return [
            Held(one.id, one.tag, one.provider_id, self.instances.requested_at[one.id])
            for one in instances
        ]
