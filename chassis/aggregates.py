"""The base of every aggregate: the eventsourcing library's, with text ids and explicit topics.

There is no inherited ``Created`` event, so each aggregate names its own first event and the
library can insist that every event has a ``TOPIC``: a stored name that survives renaming code.
Attributes of events and aggregates are plain JSON values (str, int, bool, list, dict), so that
events, states and snapshots have one canonical form without any codec.

``apply`` only assigns. It runs again on every replay, long after the rule that allowed the
event has changed.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from typing import Any, Self

from eventsourcing.domain import (
    BaseAggregate,
    CanInitAggregate,
    CanMutateAggregate,
    MetaDomainEvent,
)


@cache
def _fact_names(event_class: Any) -> Set[str]:
    return frozenset(event_class.__dataclass_fields__) - {"originator_id", "originator_version"}


class Fact(metaclass=MetaDomainEvent):
    originator_id: str
    originator_version: int
    # Microseconds UTC, stamped by the writer and passed in by the command; never read here.
    timestamp: int

    @staticmethod
    def create_timestamp() -> Any:
        raise TypeError("pass timestamp=at: only the writer reads the clock")


class Aggregate(BaseAggregate[str]):
    """Something with an identity and a history."""

    # Whom the history belongs to, and what it follows from; both go into every event's meta.
    tenant_id: str = ""
    correlation_id: str = ""
    # Where its last event stands in the log; kept by the application.
    _position: int = 0

    class Event(Fact, CanMutateAggregate[str]):  # type: ignore[misc]
        """Something that happened to this aggregate."""

        def mutate(self, aggregate: Any) -> Any:
            # The store guarantees the sequence, so this is the library's mutate without its
            # checks: replay is bound by this function.
            self.apply(aggregate)
            aggregate._version = self.originator_version
            aggregate._modified_on = self.timestamp
            return aggregate

    @classmethod
    def _create(cls, event_class: Any, *, id: str | None = None, **facts: Any) -> Self:
        aggregate = super()._create(event_class, id=id, **facts)
        aggregate._attribute(aggregate._pending_events[-1])
        return aggregate

    def trigger_event(self, event_class: Any, **facts: Any) -> None:
        """Record that something happened; ``facts`` are exactly the event's own attributes."""
        if facts.keys() != _fact_names(event_class):
            # Its own constructor says best what is missing or unknown.
            event_class(originator_id="", originator_version=0, **facts)
        # What a frozen dataclass does field by field, done at once: every command comes here.
        event = object.__new__(event_class)
        facts["originator_id"], facts["originator_version"] = self._id, self._version + 1
        object.__setattr__(event, "__dict__", facts)
        event.mutate(self)
        self._attribute(event)
        self._pending_events.append(event)

    def collect_events(self) -> list[Any]:
        events, self._pending_events = self._pending_events, []
        return events

    def _attribute(self, event: Any) -> None:
        """Events say whose they are, live as after decoding, so that views need no lookup."""
        vars(event).update(tenant_id=self.tenant_id, correlation_id=self.correlation_id)

    def state(self) -> dict[str, Any]:
        """Everything replay must reproduce."""
        return {name: value for name, value in vars(self).items() if name != "_pending_events"}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        aggregate = cls.__new__(cls)
        aggregate.__dict__.update(state, _pending_events=[])
        return aggregate


class FirstEvent(Aggregate.Event, CanInitAggregate[str]):  # type: ignore[misc]
    """The event an aggregate begins with; its attributes are the arguments of ``__init__``."""

    originator_topic: str

    def mutate(self, aggregate: Any) -> Any:
        return CanInitAggregate.mutate(self, aggregate)
