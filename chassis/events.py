"""Events to bytes and back.

The bytes are canonical JSON: the event's own facts beside one ``meta`` object. They are stored,
hashed and published as they are, and they parse as the event's protobuf message. Topics come
from an allow-list built from the service's aggregates; a stored name never imports anything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from chassis import canonical
from chassis.aggregates import Aggregate

# Attributes that travel in ``meta`` or follow from the topic.
_ENVELOPE = frozenset(
    ["originator_id", "originator_version", "originator_topic", "timestamp", "tenant_id"]
    + ["correlation_id"]
)


@dataclass(frozen=True, slots=True)
class Cause:
    """Who asked, and what this follows from."""

    actor: str = ""
    correlation_id: str = ""
    causation_id: str = ""
    traceparent: str = ""


class Recorded(NamedTuple):
    """One row of a log."""

    position: int
    aggregate_id: str
    version: int
    topic: str
    tenant_id: str
    correlation_id: str
    traceparent: str
    data: bytes
    hash: bytes


# Decoding bounds replay, so its three calls are bound once.
loads, new, assign = canonical.loads, object.__new__, object.__setattr__


class UnknownTopic(LookupError):
    """A stored or received event is of no type this service declares."""


def event_id(service: str, shard: int, position: int) -> str:
    return f"{service}/{shard}/{position}"


def event_classes(aggregates: Iterable[type[Aggregate]]) -> Iterator[type[Aggregate.Event]]:
    for aggregate in aggregates:
        for item in vars(aggregate).values():
            is_event = isinstance(item, type) and issubclass(item, Aggregate.Event)
            if is_event and hasattr(item, "TOPIC"):
                yield item


def _fact_names(kind: type[Aggregate.Event]) -> tuple[str, ...]:
    names: dict[str, object] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return tuple(name for name in names if name not in _ENVELOPE)


class Codec:
    """Encodes and decodes the events of some aggregates."""

    def __init__(self, aggregates: Iterable[type[Aggregate]]) -> None:
        aggregates = tuple(aggregates)
        self._classes = {event.TOPIC: event for event in event_classes(aggregates)}  # type: ignore[attr-defined]
        self._facts = {kind: _fact_names(kind) for kind in self._classes.values()}
        self._owners = {aggregate.TOPIC: aggregate for aggregate in aggregates}  # type: ignore[attr-defined]

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._classes)

    def encode(self, event: Any, actor: str, causation_id: str) -> bytes:
        attributes = vars(event)
        facts = {name: attributes[name] for name in self._facts[type(event)]}
        canonical.refuse_floats(facts)
        facts["meta"] = {
            "actor": actor,
            "aggregate_id": attributes["originator_id"],
            "at": attributes["timestamp"],
            "causation_id": causation_id,
            "correlation_id": attributes["correlation_id"],
            "tenant_id": attributes["tenant_id"],
            "topic": type(event).TOPIC,
            "version": attributes["originator_version"],
        }
        return canonical.dumps_checked(facts)

    def decode(self, topic: str, data: bytes) -> Any:
        kind = self._classes.get(topic)
        if kind is None:
            raise UnknownTopic(topic)
        attributes = loads(data)
        meta = attributes.pop("meta")
        attributes["originator_id"] = meta["aggregate_id"]
        attributes["originator_version"] = version = meta["version"]
        attributes["timestamp"] = meta["at"]
        attributes["tenant_id"] = meta["tenant_id"]
        attributes["correlation_id"] = meta["correlation_id"]
        if version == 1:
            attributes["originator_topic"] = topic.rpartition(".")[0]
        event = new(kind)
        assign(event, "__dict__", attributes)
        return event

    def aggregate_class(self, topic: str) -> type[Aggregate]:
        return self._owners[topic]
