"""How the run time of a job is cut into slices. Pure.

The slices of a lease are numbered from 1, touch each other, and add up to its run time exactly.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Slice:
    """One interval of a job's run time, as it is or will be reported."""

    seq: int
    from_us: int
    until_us: int


@dataclass(frozen=True)
class Meter:
    """How much of a job's run time has been cut into slices, and the slice without an answer.

    A slice that may have been sent never changes. What comes after it stays uncut until it is
    answered, so that after a silence one slice covers all of it: nothing piles up.
    """

    seq: int = 0
    until_us: int = 0
    pending: Slice | None = None

    def cut(self, run_us: int) -> "Meter":
        """The meter with a slice to send; the same meter if there is nothing to cut."""
        if self.pending or run_us <= self.until_us:
            return self
        following = Slice(self.seq + 1, self.until_us, run_us)
        return Meter(following.seq, following.until_us, following)

    def answered(self, seq: int) -> "Meter":
        return replace(self, pending=None) if self.pending and self.pending.seq == seq else self

    def complete(self, run_us: int) -> bool:
        return self.pending is None and self.until_us >= run_us
