"""Messages that continue the chain of a log and wait for a seal that speaks for them. Pure.

Nothing in here may have an effect. A message leaves it by a good seal, its own or a later one, or
is forgotten when the owner is asked, whose answer then counts in its place.
"""

from dataclasses import dataclass, field

from chassis import seal
from chassis.clock import SECOND
from chassis.envelope import Envelope
from chassis.events import Recorded
from chassis.seal import Standing

WAIT_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Judged:
    """What the source vouches for, how many seals are bad, and whether the owner has to say."""

    believed: list[Recorded]
    bad: int = 0
    in_doubt: bool = False


@dataclass(slots=True)
class Unsealed:
    source: str
    _waiting: list[Envelope] = field(default_factory=list)
    _since: int = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, envelope: Envelope, at: int) -> None:
        if not self._waiting:
            self._since = at
        self._waiting.append(envelope)

    def judge(self, trust: bytes, at: int) -> Judged:
        """Everything up to the last good seal is believed, and leaves; the rest waits on.

        Looked at from the end, so that usually one seal is verified for the whole run.
        """
        bad, in_doubt, end = 0, False, len(self._waiting)
        while end and (found := self._standing(end - 1, trust, at)) is not Standing.GOOD:
            end -= 1
            if found is not Standing.NONE:
                in_doubt = True
            if found is Standing.BAD:
                bad += 1
                # It is not waited for, nor is what builds on it.
                del self._waiting[end:]
        believed = [envelope.event for envelope in self._waiting[:end]]
        if believed:
            self._waiting, self._since = self._waiting[end:], at
        overdue = bool(self._waiting) and at - self._since > WAIT_SECONDS * SECOND
        return Judged(believed, bad, in_doubt or overdue)

    def forget(self) -> list[Recorded]:
        """Empty it; answers what nobody has vouched for."""
        forgotten, self._waiting = self._waiting, []
        return [envelope.event for envelope in forgotten]

    def _standing(self, index: int, trust: bytes, at: int) -> Standing:
        return seal.standing(self.source, self._waiting[index], trust, at)
