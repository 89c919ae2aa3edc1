"""Which events of the log an export needs, and how they are kept while they are sorted.

Everything of one lease comes together: its meter's events and, as entries of its own, each
invoice line that names it. A tenant's periods come before all its leases.
"""

from collections.abc import Iterable, Iterator

from billing.exports import leases
from billing.exports.calendar import Calendar
from billing.exports.rows import ChargeRow, Entry, credit_row, other_rows, settled_rows
from billing.exports.spool import Key
from chassis import canonical
from chassis.events import Recorded

ISSUED = "billing.invoice.issued"
CREDITED = "billing.invoice.credited"
# The money of a credit note.
GIVEN_BACK = "billing.account.credited"
COMMITTED = "billing.commitment.opened"
SETTLED = "billing.account.commitment_settled"
PERIOD_OPENED, PERIOD_CLOSED = "billing.period.opened", "billing.period.closed"
_PERIODS = (PERIOD_OPENED, PERIOD_CLOSED)
_WHOLE = leases.TOPICS | {ISSUED, CREDITED, GIVEN_BACK, COMMITTED, SETTLED}


def records(page: Iterable[Recorded]) -> Iterator[tuple[Key, bytes]]:
    for row in page:
        if row.topic in _PERIODS:
            yield (row.tenant_id, "", row.position, 0), _packed(row.topic, row.hash, row.data)
        elif row.topic in _WHOLE or b'"income:' in row.data:
            key = (row.tenant_id, row.aggregate_id, row.position, 0)
            yield key, _packed(row.topic, row.hash, row.data)
        if row.topic == ISSUED:
            yield from _lines(row)


def _lines(row: Recorded) -> Iterator[tuple[Key, bytes]]:
    facts = canonical.loads(row.data)
    shared = {
        "invoice_id": row.aggregate_id,
        "currency": facts["currency"],
        "period_id": facts.get("period_id", ""),
        "meta": facts["meta"],
    }
    for line in facts["lines"]:
        key = (row.tenant_id, f"mtr_{line['lease_id']}", row.position, line["line"])
        yield key, _packed(leases.LINE, row.hash, canonical.dumps(line | shared))


def _packed(topic: str, hash_: bytes, data: bytes) -> bytes:
    """Canonical JSON has no line feeds."""
    return b"\n".join((topic.encode(), hash_.hex().encode(), data))


def entry(key: Key, payload: bytes) -> Entry:
    topic, hash_, data = payload.split(b"\n", 2)
    return Entry(int(key[2]), hash_.decode(), topic.decode(), canonical.loads(data))


def learn(calendar: Calendar, found: Entry) -> None:
    """Take note of an event of a billing period."""
    meta = found.facts["meta"]
    if found.topic == PERIOD_OPENED:
        start, end = found.facts["starts_at"], found.facts["ends_at"]
        calendar.opened(meta["aggregate_id"], start, end, meta["at"])
    elif found.topic == PERIOD_CLOSED:
        calendar.closed(meta["aggregate_id"], meta["at"])


def charge_rows(group: list[Entry], calendar: Calendar) -> Iterator[ChargeRow]:
    """The charges of one aggregate, whose events are in the order of the log."""
    if group[0].topic == leases.OPENED:
        yield from leases.Lease(group, calendar).rows()
        return
    for found in group:
        if found.topic == GIVEN_BACK:
            yield credit_row(found, calendar)
        elif found.topic == SETTLED:
            yield from settled_rows(found, calendar)
        elif found.topic not in (ISSUED, leases.LINE):
            yield from other_rows(found, calendar)
