"""Billing periods as exports see them: those a tenant's log names, else months of UTC. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from billing.money import HOUR_US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class Period:
    start_us: int
    end_us: int
    opened_at: int
    # 0 while it is open.
    closed_at: int = 0


def instant(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)


def month(at: int) -> tuple[int, int]:
    """The month of UTC that an instant lies in."""
    first = instant(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return (first - _EPOCH) // _MICROSECOND, (following - _EPOCH) // _MICROSECOND


@dataclass(slots=True)
class Calendar:
    """The periods of one tenant, by id."""

    periods: dict[str, Period] = field(default_factory=dict)
    # The answer before: whoever asks goes on close to where they asked last.
    _last: tuple[int, int] = (0, 0)

    def opened(self, period_id: str, start_us: int, end_us: int, at: int) -> None:
        self.periods[period_id] = Period(start_us, end_us, at)
        self._last = (0, 0)

    def closed(self, period_id: str, at: int) -> None:
        self.periods[period_id].closed_at = at

    def around(self, at: int) -> tuple[int, int]:
        """The billing period that an instant lies in."""
        if not self._last[0] <= at < self._last[1]:
            self._last = self._find(at)
        return self._last

    def _find(self, at: int) -> tuple[int, int]:
        for period in self.periods.values():
            if period.start_us <= at < period.end_us:
                return period.start_us, period.end_us
        start, end = month(at)
        for period in self.periods.values():
            # A month that a stored period cuts into ends, or begins, where that one does.
            if start < period.end_us <= at:
                start = period.end_us
            if at < period.start_us < end:
                end = period.start_us
        return start, end

    def pieces(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """An interval of instants, cut at every full hour of UTC and at every edge of a period."""
        while low < high:
            end = min(high, low // HOUR_US * HOUR_US + HOUR_US, self.around(low)[1])
            yield low, end
            low = end

    def charge_period(self, at: int) -> tuple[int, int]:
        """The hour around an instant, as far as it lies in the instant's billing period."""
        start, end = self.around(at)
        hour = at // HOUR_US * HOUR_US
        return max(hour, start), min(hour + HOUR_US, end)
