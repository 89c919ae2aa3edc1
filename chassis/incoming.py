"""An event of another service, as a reaction sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chassis import canonical
from chassis.events import Cause, Recorded, event_id


@dataclass(frozen=True, slots=True)
class Incoming:
    source: str
    position: int
    topic: str
    aggregate_id: str
    tenant_id: str
    correlation_id: str
    # The event's own facts; the envelope is in ``meta``.
    data: dict[str, Any]
    meta: dict[str, Any]

    @property
    def event_id(self) -> str:
        """The causation id of whatever follows from this event."""
        return event_id(self.source, 0, self.position)


# Runs on the writer's thread, with the instant its effects are recorded at.
Reaction = Callable[[Incoming, int], None]


def incoming(source: str, event: Recorded) -> Incoming:
    data = canonical.loads(event.data)
    meta = data.pop("meta")
    return Incoming(
        source=source,
        position=event.position,
        topic=event.topic,
        aggregate_id=event.aggregate_id,
        tenant_id=event.tenant_id,
        correlation_id=event.correlation_id,
        data=data,
        meta=meta,
    )


class Reactions:
    """What a service does about the events of one source.

    It is the allow-list: a topic that is not in it is passed over, and no name that came over
    the wire is ever looked up anywhere else.
    """

    def __init__(self, service: str, source: str, table: Mapping[str, Reaction]) -> None:
        self._actor = f"svc:{service}"
        self._source = source
        self._table = {
            topic: reaction for topic, reaction in table.items() if topic.startswith(f"{source}.")
        }

    def __contains__(self, topic: str) -> bool:
        return topic in self._table

    def run(self, event: Recorded) -> Callable[[int], None]:
        """The command that reacts; it does nothing where no reaction is declared."""

        def react(at: int) -> None:
            if reaction := self._table.get(event.topic):
                reaction(incoming(self._source, event), at)

        return react

    def cause(self, event: Recorded) -> Cause:
        return Cause(
            actor=self._actor,
            correlation_id=event.correlation_id,
            causation_id=event_id(self._source, 0, event.position),
            traceparent=event.traceparent,
        )
