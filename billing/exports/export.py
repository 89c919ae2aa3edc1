"""From the log to the bytes of a file, in memory that does not grow with the log.

Events are sorted by tenant and lease on disk, made into rows lease by lease, sorted by tenant and
time on disk again, and written batch by batch. What comes out depends on the events and on what
was chosen, and on nothing else.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import orjson

from billing.exports import commitments, entries, invoices
from billing.exports.calendar import Calendar, Period
from billing.exports.columns import DATASETS, Column
from billing.exports.csv_file import CsvFile
from billing.exports.entries import charge_rows
from billing.exports.focus import sources
from billing.exports.parquet_file import ParquetFile
from billing.exports.rows import ChargeRow, Entry
from billing.exports.spool import Key, Spool
from billing.exports.values import Value
from chassis.events import Recorded


class File(Protocol):
    def write(self, values: Sequence[Sequence[Value]]) -> bytes: ...

    def close(self) -> bytes: ...


FORMATS: dict[str, Callable[[Sequence[Column]], File]] = {"csv": CsvFile, "parquet": ParquetFile}
# Of a batch, which is a row group of a Parquet file.
BATCH = 20_000
CHUNK = 1_000_000
SPOOLED = 1_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Charges that begin in [from_us, until_us); 0 leaves that side open."""

    dataset: str = "CostAndUsage"
    form: str = "csv"
    from_us: int = 0
    until_us: int = 0
    issuer: str = "Leasehold"

    def holds(self, at: int) -> bool:
        return self.from_us <= at and (not self.until_us or at < self.until_us)


def exported(pages: Iterable[Iterable[Recorded]], chosen: Selection) -> Iterator[bytes]:
    """The file, in pieces of at most ``CHUNK`` bytes."""
    columns = DATASETS[chosen.dataset]
    file = FORMATS[chosen.form](columns)
    values = sources(chosen.dataset, chosen.issuer)
    rows = selected(pages, chosen)
    while batch := list(islice(rows, BATCH)):
        yield from _chunks(file.write([[source(row) for row in batch] for source in values]))
    yield from _chunks(file.close())


def _chunks(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK):
        yield data[start : start + CHUNK]


def selected(pages: Iterable[Iterable[Recorded]], chosen: Selection) -> Iterator[Any]:
    """The rows of a dataset, in the order of the file."""
    with tempfile.TemporaryDirectory(prefix="leasehold-export-") as folder:
        events = Spool(Path(folder), "events")
        try:
            for page in pages:
                events.add(entries.records(page))
            if chosen.dataset == "CostAndUsage":
                yield from _charges(events, Path(folder), chosen)
            elif chosen.dataset == "InvoiceDetail":
                yield from _invoice_lines(events, Path(folder), chosen)
            elif chosen.dataset == "BillingPeriod":
                yield from _periods(events, chosen)
            else:
                yield from commitments.agreed(_aggregates(events), chosen.until_us)
        finally:
            events.close()


def _aggregates(events: Spool) -> Iterator[tuple[list[Entry], Calendar]]:
    """The events of each aggregate, with the periods of its tenant."""
    tenant_id, calendar = "", Calendar()
    for group in events.groups():
        found = [entries.entry(key, payload) for key, payload in group]
        if group[0][0][0] != tenant_id:
            tenant_id, calendar = group[0][0][0], Calendar()
        if group[0][0][1] == "":
            for one in found:
                entries.learn(calendar, one)
        yield found, calendar


def _charges(events: Spool, folder: Path, chosen: Selection) -> Iterator[ChargeRow]:
    made = (
        (_order(row), orjson.dumps(list(row)))
        for found, calendar in _aggregates(events)
        for row in charge_rows(found, calendar)
        if chosen.holds(row.start_us)
    )
    for payload in _sorted(made, folder):
        yield ChargeRow._make(orjson.loads(payload))


def _order(row: ChargeRow) -> Key:
    return (
        row.tenant_id,
        row.start_us,
        row.lease_id,
        f"{row.kind}/{row.invoice_id}/{row.line:06d}/{row.position:015d}",
    )


def _invoice_lines(events: Spool, folder: Path, chosen: Selection) -> Iterator[Any]:
    made = (
        (
            (line.tenant_id, line.issued_at, line.invoice_id, f"{line.line:06d}/{line.kind}"),
            invoices.packed(line),
        )
        for found, calendar in _aggregates(events)
        for line in invoices.lines(found, calendar)
        if chosen.holds(line.period_start_us)
    )
    for payload in _sorted(made, folder):
        yield invoices.unpacked(payload)


def _sorted(made: Iterator[tuple[Key, bytes]], folder: Path) -> Iterator[bytes]:
    spool = Spool(folder, "rows")
    try:
        while some := list(islice(made, SPOOLED)):
            spool.add(some)
        for _, payload in spool.sorted():
            yield payload
    finally:
        spool.close()


def _periods(events: Spool, chosen: Selection) -> Iterator[Period]:
    """Every period that is stored or has a charge; open while it is for one of its tenants."""
    found: dict[tuple[int, int], Period] = {}
    for group, calendar in _aggregates(events):
        stored = {(one.start_us, one.end_us): one for one in calendar.periods.values()}
        named = {(row.period_start_us, row.period_end_us) for row in charge_rows(group, calendar)}
        for edges in named | stored.keys():
            one = stored.get(edges) or Period(*edges, opened_at=edges[0])
            found[edges] = _joined(found.get(edges), one)
    yield from (found[edges] for edges in sorted(found) if chosen.holds(edges[0]))


def _joined(known: Period | None, one: Period) -> Period:
    if known is None:
        return one
    closed = known.closed_at and one.closed_at and max(known.closed_at, one.closed_at)
    opened = min(known.opened_at, one.opened_at)
    return Period(one.start_us, one.end_us, opened, closed)
