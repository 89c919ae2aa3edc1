"""The core without a server: a log in memory, and commands run one at a time on it."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from chassis.application import Application
from chassis.events import Cause, Recorded
from chassis.store import Group, Head

T = TypeVar("T")

NO_CAUSE = Cause()


class MemoryLog:
    service = "memory"
    shard = 0

    def __init__(self) -> None:
        self.events: list[Recorded] = []

    def head(self) -> Head:
        last = self.events[-1:]
        return Head(1, last[0].position, last[0].hash) if last else Head(1)

    def commit(self, before: Head, group: Group, after: Head) -> None:
        assert before.position == len(self.events) == after.position - len(group.events)
        self.events.extend(group.events)

    def history(self, aggregate_id: str) -> list[Recorded]:
        return [event for event in self.events if event.aggregate_id == aggregate_id]

    def replay(self, after: int = 0, *, until: int = 0) -> Iterator[list[Recorded]]:
        yield self.events[after : until or None]

    def snapshot(self, code: str) -> None:
        return None


class Direct:
    """Runs commands as the writer does, each in a group of its own."""

    def __init__(self, application: Application, log: MemoryLog) -> None:
        self._application = application
        self._log = log

    def __call__(self, run: Callable[[], T], cause: Cause = NO_CAUSE) -> T:
        application = self._application
        try:
            answer = run()
        except Exception:
            application.discard()
            raise
        before = application.head
        rows, after = application.record(cause, before)
        self._log.commit(before, Group(events=rows), after)
        application.committed(after, len(rows))
        return answer
