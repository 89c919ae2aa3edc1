"""The charge rows of one lease, from the events of its meter and its invoice lines. Pure.

An hour costs the difference of two rounded totals, as a slice does; so rows do not depend on how
the lease was sliced. Time that a line names is that line's; time that was billed, taken back and
never invoiced stands on no invoice, and its two rows cancel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from billing.exports.calendar import Calendar
from billing.exports.rows import (
    ADJUSTMENT,
    CORRECTION,
    TAX,
    USAGE,
    ChargeRow,
    Entry,
    billed,
    other_rows,
    plain_row,
)
from billing.money import Rate, half_even

OPENED = "billing.meter.opened"
SLICE = "billing.meter.slice_recorded"
CONFIRMED = "billing.meter.confirmed"
TOPICS = frozenset({OPENED, SLICE, CONFIRMED})
# Not an event: a line of an issued invoice, as the lease that it names sees it.
LINE = "line"

NO_LINE = -1


class Key(NamedTuple):
    start_us: int
    kind: str
    line: int


@dataclass(slots=True)
class _Sum:
    end_us: int
    amount: int = 0
    gpu_us: int = 0
    last: Entry | None = None


@dataclass(slots=True)
class Lease:
    entries: Sequence[Entry]
    calendar: Calendar
    sums: dict[Key, _Sum] = field(default_factory=dict)
    # GPU time used and confirmed, by the start of the charge period.
    used: dict[int, int] = field(default_factory=dict)
    confirmed: dict[int, int] = field(default_factory=dict)
    opened: dict[str, Any] = field(init=False)
    lines: list[Entry] = field(init=False)
    edges: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.opened = self.entries[0].facts
        self.lines = [entry for entry in self.entries if entry.topic == LINE]
        began = self.opened["activated_at"]
        named = [(line.facts["activated_at"], line.facts["ended_at"]) for line in self.lines]
        self.edges = sorted({edge - began for ends in named for edge in ends})

    def rows(self) -> Iterator[ChargeRow]:
        for entry in self.entries:
            if entry.topic == SLICE:
                self._take(entry)
            elif entry.topic == CONFIRMED:
                self._confirm(entry.facts["from_us"], entry.facts["until_us"])
        by_line: dict[int, list[ChargeRow]] = {}
        for key in sorted(self.sums):
            by_line.setdefault(key.line, []).append(self._row(key))
        for entry in self.entries:
            if entry.topic not in TOPICS and entry.topic != LINE:
                by_line.setdefault(self._line_after(entry), []).extend(self._others(entry))
        yield from by_line.get(NO_LINE, ())
        for number, line in enumerate(self.lines):
            yield from self._invoiced(line, by_line.get(number, []))

    def _take(self, entry: Entry) -> None:
        facts = entry.facts
        kind = USAGE if facts["until_us"] >= facts["from_us"] else CORRECTION
        sign = 1 if kind == USAGE else -1
        low, high = sorted((facts["from_us"], facts["until_us"]))
        for start, end, amount in self._split(low, high, sign * facts["amount_nanos"]):
            period = self.calendar.charge_period(start + self.opened["activated_at"])
            key = Key(period[0], kind, self._line_of(kind, start))
            found = self.sums.setdefault(key, _Sum(period[1]))
            found.amount += sign * amount
            gpu_us = (end - start) * self.opened["gpu_count"]
            found.gpu_us += sign * gpu_us
            found.last = entry
            if kind == USAGE:
                self.used[period[0]] = self.used.get(period[0], 0) + gpu_us
        if facts["confirmed"]:
            self._confirm(low, high)

    def _confirm(self, low: int, high: int) -> None:
        for start, end in self._pieces(low, high):
            at = self.calendar.charge_period(start + self.opened["activated_at"])[0]
            gpu_us = (end - start) * self.opened["gpu_count"]
            self.confirmed[at] = self.confirmed.get(at, 0) + gpu_us

    def _split(self, low: int, high: int, amount: int) -> Iterator[tuple[int, int, int]]:
        """An interval's money by piece; the pieces sum to ``amount`` exactly."""
        count = self.opened["gpu_count"]
        rate = Rate(self.opened["price_nanos"], self.opened["per_gpu_us"])
        base = rate.amount(count * low)
        own_price = rate.amount(count * high) - base == amount
        done = 0
        for start, end in self._pieces(low, high):
            if own_price:
                until = rate.amount(count * end) - base
            else:
                until = half_even(amount * (end - low), high - low)
            yield start, end, until - done
            done = until

    def _pieces(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Time of the lease, cut at hours, periods and the ends of lines."""
        began = self.opened["activated_at"]
        cuts = [low, *(edge for edge in self.edges if low < edge < high), high]
        for start, end in pairwise(cuts):
            for first, last in self.calendar.pieces(start + began, end + began):
                yield first - began, last - began

    def _line_of(self, kind: str, at_us: int) -> int:
        """The first line that bills the time, or takes it back."""
        at = at_us + self.opened["activated_at"]
        for number, line in enumerate(self.lines):
            start, end = line.facts["activated_at"], line.facts["ended_at"]
            if (start <= at < end) if kind == USAGE else (end <= at < start):
                return number
        return NO_LINE

    def _line_after(self, entry: Entry) -> int:
        """What is charged beside time stands on the first line that was written after it."""
        later = (n for n, line in enumerate(self.lines) if line.position > entry.position)
        return next(later, NO_LINE)

    def _others(self, entry: Entry) -> Iterator[ChargeRow]:
        named = {name: self.opened[name] for name in ("lease_id", "project", "workload_id")}
        for row in other_rows(entry, self.calendar):
            yield row._replace(**named)

    def _invoiced(self, line: Entry, rows: list[ChargeRow]) -> Iterator[ChargeRow]:
        facts = line.facts
        if not rows and facts["amount_nanos"]:
            rows = [plain_row(line, self.calendar, ADJUSTMENT, 0)]
        made = billed(rows, facts["amount_nanos"]) if rows else []
        if tax := facts.get("tax_nanos", 0):
            made.append(plain_row(line, self.calendar, TAX, tax))
        period = self.calendar.periods.get(facts.get("period_id", ""))
        late = facts.get("charge") == "CORRECTION"
        for row in made:
            row = row._replace(invoice_id=facts["invoice_id"], line=facts["line"], late=late)
            if late and period:
                row = row._replace(period_start_us=period.start_us, period_end_us=period.end_us)
            yield row

    def _row(self, key: Key) -> ChargeRow:
        opened, found = self.opened, self.sums[key]
        assert found.last is not None
        period_start, period_end = self.calendar.around(key.start_us)
        return ChargeRow(
            tenant_id=opened["meta"]["tenant_id"],
            start_us=key.start_us,
            end_us=found.end_us,
            kind=key.kind,
            invoice_id="",
            line=0,
            period_start_us=period_start,
            period_end_us=period_end,
            amount_nanos=found.amount,
            billed_nanos=found.amount,
            late=False,
            gpu_us=found.gpu_us,
            state=self._state(key),
            position=found.last.position,
            hash=found.last.hash,
            topic=found.last.topic,
            market=opened.get("market", ""),
            region=opened.get("region", ""),
            commitment_id="",
            **{name: opened[name] for name in _OF_THE_LEASE},
        )

    def _state(self, key: Key) -> str:
        confirmed = self.confirmed.get(key.start_us, 0)
        if not confirmed:
            return "unconfirmed"
        return "confirmed" if confirmed >= self.used.get(key.start_us, 0) else "partly"


_OF_THE_LEASE = (
    "lease_id", "currency", "project", "workload_id", "gpu_model", "gpu_count", "price_nanos",
    "per_gpu_us", "price_version",
)  # fmt: skip
