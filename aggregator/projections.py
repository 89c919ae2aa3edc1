"""What the aggregator looks up: its sources, its instances, and those with work to do."""

from typing import Any

from aggregator.domain import Instance, Source
from chassis.application import View


class Sources(View):
    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Source.Onboarded):
            self.by_name[event.name] = event.originator_id


class Instances(View):
    """Instances that exist or may exist at a provider, by source; and those that await a call."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.requested_at: dict[str, int] = {}
        # Insertion order is the order of work.
        self.unfinished: dict[str, str] = {}

    def apply(self, event: Any) -> None:
        instance_id = event.originator_id
        if isinstance(event, Instance.Requested):
            self.sources[instance_id] = event.source_id
            self.requested_at[instance_id] = event.timestamp
            self.unfinished[instance_id] = "create"
        elif isinstance(event, Instance.TerminationRequested):
            self.unfinished[instance_id] = "delete"
        elif isinstance(event, Instance.Created):
            self.unfinished.pop(instance_id, None)
        elif isinstance(event, Instance.Failed | Instance.Gone):
            self.unfinished.pop(instance_id, None)
            del self.sources[instance_id], self.requested_at[instance_id]
