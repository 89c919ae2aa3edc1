"""The core of a service: aggregates and views, changed by commands and rebuilt by replay.

A command loads aggregates, asks the rules, and saves. Saving stages events; whoever runs the
application (the writer, or ``chassis.memory.Direct``) commits what was staged and only then
answers. A command that fails leaves nothing behind: what it changed is forgotten and loaded again.
"""

import inspect
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from chassis import canonical
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Invalid, NotFound
from chassis.events import Cause, Codec, Recorded, event_id
from chassis.store import Head

A = TypeVar("A", bound=Aggregate)

ID_LENGTH_MAX = 255


class ChainBroken(Exception):
    """The stored bytes are not the bytes that were hashed."""

    def __init__(self, service: str, position: int) -> None:
        super().__init__(f"{service}: the chain breaks at position {position}")
        self.position = position


class Log(Protocol):
    """What an application reads its past from."""

    service: str
    shard: int

    def history(self, aggregate_id: str) -> list[Recorded]: ...
    def replay(self, after: int = 0, *, until: int = 0) -> Iterator[list[Recorded]]: ...
    def snapshot(self, code: str) -> tuple[int, bytes] | None: ...


class View(ABC):
    """A read model: a fold over events that holds plain JSON values."""

    # The events it takes in, if not all: a view that is told of fewer makes every command faster.
    hears: ClassVar[tuple[type, ...]] = ()

    @abstractmethod
    def apply(self, event: Any) -> None:
        """Take one event in. Never refuses: the event has happened."""

    def state(self) -> dict[str, Any]:
        """Everything replay must reproduce."""
        return dict(vars(self))

    def load(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class Application:
    service: ClassVar[str]
    aggregates: ClassVar[tuple[type[Aggregate], ...]]
    cache_size: ClassVar[int] = 200_000

    def __init__(self, log: Log) -> None:
        self.log = log
        self.codec = Codec(self.aggregates)
        self.views: dict[str, View] = {}
        self.head = Head()
        self.last_at = 0
        self._cache: OrderedDict[str, Aggregate] = OrderedDict()
        # What may exist without being in the cache; while nothing was evicted, a miss outside
        # of it needs no look into the log.
        self._forgotten: set[str] = set()
        self._evicted = False
        self._touched: dict[str, Aggregate] = {}
        self._staged: list[Any] = []
        self._uncommitted: list[Any] = []
        self._listening: dict[type, list[Callable[[Any], None]]] = {}

    # For commands.

    def find(self, kind: type[A], aggregate_id: str) -> A | None:
        aggregate = self._load(aggregate_id)
        if not isinstance(aggregate, kind):
            return None
        self._touched[aggregate_id] = aggregate
        return aggregate

    def get(self, kind: type[A], aggregate_id: str) -> A:
        aggregate = self.find(kind, aggregate_id)
        if aggregate is None:
            noun = kind.__name__.lower()
            raise NotFound(f"no {noun} {aggregate_id!r}", code=f"{noun.upper()}_NOT_FOUND")
        return aggregate

    def save(self, *aggregates: Aggregate, because: str = "") -> None:
        """Stage what happened. ``because`` is the event it follows from, if the caller knows."""
        for aggregate in aggregates:
            # What the database would refuse must be refused while that is still an answer.
            if not (len(aggregate.id) <= ID_LENGTH_MAX and aggregate.id.isprintable()):
                raise Invalid(f"an id has at most {ID_LENGTH_MAX} characters", code="ID")
            self._touched[aggregate.id] = aggregate
            for event in aggregate.collect_events():
                vars(event)["causation_id"] = because
                self._staged.append(event)

    # For whoever runs commands.

    def collect(self, cause: Cause) -> list[Any]:
        """Accept the command that just ran: its events, in order, now visible to the next one."""
        events, self._staged = self._staged, []
        for aggregate_id, aggregate in self._touched.items():
            assert not aggregate.pending_events, f"{aggregate_id} was changed and not saved"
            self._remember(aggregate_id, aggregate)
        changed, self._touched = self._touched, {}
        for event in events:
            if not event.correlation_id:
                _correlate(event, changed[event.originator_id], cause.correlation_id)
            self._show(event)
        self._uncommitted.extend(events)
        return events

    def last_event(self, aggregate: Aggregate) -> str:
        """The id of the last event of something that follows from one intent, if this does."""
        if not (aggregate.correlation_id and aggregate._position):
            return ""
        return event_id(self.service, self.log.shard, aggregate._position)

    def record(self, cause: Cause, head: Head) -> tuple[list[Recorded], Head]:
        """Accept the command that just ran, as rows to be written after ``head``."""
        position, chain, rows = head.position, head.hash, []
        changed = self._touched
        for event in self.collect(cause):
            aggregate = changed[event.originator_id]
            causation_id = event.causation_id or cause.causation_id or self.last_event(aggregate)
            data = self.codec.encode(event, cause.actor, causation_id)
            chain = canonical.chained(chain, data)
            position += 1
            aggregate._position = position
            rows.append(
                Recorded(
                    position,
                    event.originator_id,
                    event.originator_version,
                    type(event).TOPIC,
                    event.tenant_id,
                    event.correlation_id,
                    cause.traceparent,
                    data,
                    chain,
                )
            )
        return rows, Head(head.epoch, position, chain)

    def discard(self) -> None:
        """Undo the command that just failed: forget what it changed."""
        changed = {event.originator_id for event in self._staged}
        changed.update(key for key, one in self._touched.items() if one.pending_events)
        for aggregate_id in changed:
            self._cache.pop(aggregate_id, None)
        self._forgotten |= changed
        self._staged.clear()
        self._touched.clear()

    def committed(self, head: Head, events: int) -> None:
        """The oldest so many of the recorded events are in the log now."""
        self.head = head
        del self._uncommitted[:events]

    # Rebuilding.

    def catch_up(self, *, until: int = 0) -> None:
        """Fold what the log holds after the current head, checking its chain."""
        for page in self.log.replay(self.head.position, until=until):
            self._fold(page)

    def start_from_snapshot(self) -> None:
        if snapshot := self.log.snapshot(self.code()):
            self.load(snapshot[1])

    def state(self) -> bytes:
        """The canonical state at the head: what a rebuild must equal byte for byte."""
        return canonical.dumps(self._state())

    def snapshot(self) -> bytes:
        return canonical.dumps({"evicted": self._evicted, "state": self._state()})

    def load(self, snapshot: bytes) -> None:
        loaded = canonical.loads(snapshot)
        self._evicted, state = loaded["evicted"], loaded["state"]
        for aggregate_id, values in state["aggregates"].items():
            kind = self.codec.aggregate_class(values.pop("topic"))
            self._cache[aggregate_id] = kind.restore(values)
        for name, values in state["views"].items():
            self.views[name].load(values)
        head = state["head"]
        self.head = Head(0, head["position"], bytes.fromhex(head["hash"]))
        self.last_at = state["last_at"]

    def code(self) -> str:
        """Fingerprint of the code that folds events; another one cannot use the snapshot."""
        digest = sha256()
        for kind in (type(self), Application):
            file = inspect.getsourcefile(kind)
            assert file is not None
            for source in sorted(Path(file).parent.rglob("*.py")):
                digest.update(source.read_bytes())
        return digest.hexdigest()

    def _state(self) -> dict[str, Any]:
        for aggregate_id in sorted(self._forgotten):
            if aggregate := self._rebuild(aggregate_id):
                self._remember(aggregate_id, aggregate)
        return {
            "aggregates": {
                aggregate_id: {"topic": type(aggregate).TOPIC, **aggregate.state()}  # type: ignore[attr-defined]
                for aggregate_id, aggregate in self._cache.items()
            },
            "head": {"position": self.head.position, "hash": self.head.hash.hex()},
            "last_at": self.last_at,
            "views": {name: view.state() for name, view in self.views.items()},
        }

    def _fold(self, page: list[Recorded]) -> None:
        """The hot path of every start: no call that is not needed, one lookup per event."""
        chain, decode, cache = self.head.hash, self.codec.decode, self._cache
        listeners = self._listeners
        for position, aggregate_id, version, topic, _, _, _, data, expected in page:
            chain = sha256(chain + data).digest()
            if chain != expected:
                raise ChainBroken(self.log.service, position)
            event = decode(topic, data)
            aggregate = cache.get(aggregate_id)
            if aggregate is None:
                if version > 1:
                    aggregate = self._rebuild(aggregate_id, version - 1)
                aggregate = event.mutate(aggregate)
                self._remember(aggregate_id, aggregate)
            else:
                event.mutate(aggregate)
            aggregate._position = position
            for apply in listeners(type(event)):
                apply(event)
        if page:
            self.head = Head(self.head.epoch, position, chain)
            self.last_at = event.timestamp

    def _show(self, event: Any) -> None:
        self.last_at = event.timestamp
        for apply in self._listeners(type(event)):
            apply(event)

    def _listeners(self, kind: type) -> list[Callable[[Any], None]]:
        """Who is told of an event of this kind, in the order of the views."""
        found = self._listening.get(kind)
        if found is None:
            views = self.views.values()
            found = [one.apply for one in views if not one.hears or issubclass(kind, one.hears)]
            self._listening[kind] = found
        return found

    def _load(self, aggregate_id: str) -> Aggregate | None:
        if touched := self._touched.get(aggregate_id):
            return touched
        if cached := self._cache.get(aggregate_id):
            return cached
        if not self._evicted and aggregate_id not in self._forgotten:
            return None
        return self._rebuild(aggregate_id)

    def _rebuild(self, aggregate_id: str, version_max: int = sys.maxsize) -> Aggregate | None:
        aggregate = None
        for recorded in self.log.history(aggregate_id):
            if recorded.version <= version_max:
                aggregate = self.codec.decode(recorded.topic, recorded.data).mutate(aggregate)
                aggregate._position = recorded.position
        for event in self._uncommitted:
            version = aggregate.version if aggregate else 0
            if event.originator_id == aggregate_id and event.originator_version > version:
                aggregate = event.mutate(aggregate)
        return aggregate

    def _remember(self, aggregate_id: str, aggregate: Aggregate) -> None:
        self._cache[aggregate_id] = aggregate
        if self._forgotten:
            self._forgotten.discard(aggregate_id)
        if len(self._cache) >= self.cache_size:
            # Only a full cache has to know what was used last.
            self._cache.move_to_end(aggregate_id)
        if len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)
            self._evicted = True


def _correlate(event: Any, aggregate: Aggregate, correlation_id: str) -> None:
    """An event without a correlation of its own takes its cause's, and so does what it began:
    live as after decoding."""
    vars(event)["correlation_id"] = correlation_id
    if isinstance(event, FirstEvent) and "correlation_id" in vars(aggregate):
        aggregate.correlation_id = correlation_id
