"""Time as the platform counts it: integer microseconds UTC, never going back within a process."""

import time

SECOND = 1_000_000


def now() -> int:
    return time.time_ns() // 1000


class Clock:
    """Stamps that strictly increase, also when the wall clock is set back."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def stamp(self) -> int:
        self.last = max(now(), self.last + 1)
        return self.last
