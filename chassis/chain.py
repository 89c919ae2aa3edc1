"""What a consumer has applied of a log, and its judgement of what comes next. Pure.

Every event's hash covers all events before it, so two logs that agree on one hash agree on
everything up to it.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from chassis.canonical import chained
from chassis.envelope import Envelope
from chassis.events import Recorded
from chassis.store import Cursor

RECENT_MAX = 1_024


class Verdict(Enum):
    NEXT = auto()  # continues what was applied
    REPEAT = auto()  # was applied before
    GAP = auto()  # something before it is missing here
    CONTRADICTION = auto()  # cannot be of the same history


class Diverged(Exception):
    """The owner's history is not the one that was applied here."""


@dataclass(slots=True)
class Chain:
    position: int
    hash: bytes
    incarnation: str
    # Hashes of the last events, by position, to notice a repeat with other bytes.
    recent: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def at(cls, cursor: Cursor) -> "Chain":
        recent = {cursor.position: cursor.hash}
        return cls(cursor.position, cursor.hash, cursor.incarnation, recent)

    def judge(self, envelope: Envelope) -> Verdict:
        event = envelope.event
        if event.position <= self.position:
            return Verdict.REPEAT if self.knows(event) else Verdict.CONTRADICTION
        if envelope.incarnation != self.incarnation:
            return Verdict.CONTRADICTION
        if envelope.prev > self.position:
            return Verdict.GAP
        links = envelope.prev == self.position and self.continued_by(event)
        return Verdict.NEXT if links else Verdict.CONTRADICTION

    def knows(self, event: Recorded) -> bool:
        """False if the history holds another event there, or none; old ones are not recalled."""
        same = self.recent.get(event.position, event.hash) == event.hash
        return event.position <= self.position and same

    def continued_by(self, event: Recorded) -> bool:
        follows = event.position == self.position + 1
        return follows and event.hash == chained(self.hash, event.data)

    def append(self, event: Recorded) -> None:
        self.position, self.hash = event.position, event.hash
        self.recent[event.position] = event.hash
        if len(self.recent) > RECENT_MAX:
            del self.recent[next(iter(self.recent))]

    def continuation(self, page: list[Recorded]) -> list[Recorded]:
        """What the owner's page adds; it may begin with the last event already applied."""
        if page[0].position == self.position:
            if page[0].hash != self.hash:
                raise Diverged(f"its event {self.position} is not the one that was applied")
            page = page[1:]
        for event in page:
            if not self.continued_by(event):
                raise Diverged(f"its event {event.position} does not continue what was applied")
            self.append(event)
        return page
