"""Charge rows: one lease, one UTC hour, one kind of charge, one invoice line. Pure.

Rows sum to the ledger to the nano-unit (``amount_nanos``) and, by invoice, to what is payable
(``billed_nanos``): what a line was rounded by is spread over its rows by largest remainder.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from billing.exports.calendar import Calendar

USAGE, CORRECTION, ADJUSTMENT, CREDIT, TAX = "usage", "correction", "adjustment", "credit", "tax"
# An hour of a commitment: what leases used of it, and what nobody did.
COMMITTED, UNUSED = "committed", "unused"


class Entry(NamedTuple):
    """One event as exports read it: where it stands in the log, and its facts."""

    position: int
    hash: str
    topic: str
    facts: dict[str, Any]


class ChargeRow(NamedTuple):
    tenant_id: str
    start_us: int
    end_us: int
    lease_id: str
    kind: str
    invoice_id: str
    line: int
    period_start_us: int
    period_end_us: int
    currency: str
    # As the ledger has it, and as the invoice has it; equal while the charge is on none.
    amount_nanos: int
    billed_nanos: int
    # Whether it belongs to a period that had closed before it was known.
    late: bool
    gpu_us: int
    # Of the row's GPU time: confirmed, unconfirmed, or partly.
    state: str
    project: str
    workload_id: str
    gpu_model: str
    gpu_count: int
    price_nanos: int
    per_gpu_us: int
    price_version: int
    market: str
    region: str
    commitment_id: str
    # The last event that changed the row.
    position: int
    hash: str
    topic: str


def spread(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in proportion to the weights, in whole units, by largest remainder.

    Of equal remainders the first gets more. The weights may be negative, but not sum to zero
    unless the total is zero, too.
    """
    whole = sum(weights)
    if whole == total:
        return list(weights)
    if whole < 0:
        return [-share for share in spread(-total, [-weight for weight in weights])]
    parts = [divmod(weight * total, whole) for weight in weights]
    missing = total - sum(share for share, _ in parts)
    order = sorted(range(len(parts)), key=lambda index: (-parts[index][1], index))
    larger = set(order[:missing])
    return [share + (index in larger) for index, (share, _) in enumerate(parts)]


def billed(rows: Sequence[ChargeRow], payable: int) -> list[ChargeRow]:
    """The rows of an invoice line, with what of its payable amount each one bears."""
    weights = [row.amount_nanos for row in rows]
    if not sum(weights) and payable:
        weights = [1] * len(rows)
    shares = spread(payable, weights)
    return [row._replace(billed_nanos=share) for row, share in zip(rows, shares, strict=True)]


def earned(entry: Entry) -> int:
    """What an event adds to income."""
    return -sum(
        int(posting["amount_nanos"])
        for posting in entry.facts.get("postings", ())
        if posting["account"].startswith("income:")
    )


def other_rows(entry: Entry, calendar: Calendar) -> Iterator[ChargeRow]:
    """What moved income without being a lease's time: in the hour in which it was recorded."""
    if amount := earned(entry):
        yield plain_row(entry, calendar, ADJUSTMENT, amount, exact_nanos=amount)


def settled_rows(entry: Entry, calendar: Calendar) -> Iterator[ChargeRow]:
    """An hour of a commitment; what the leases it covers had cost before is taken back."""
    facts = entry.facts
    given_back = earned(entry) - facts["used_nanos"] - facts["unused_nanos"]
    for kind, amount, gpu_us in (
        (COMMITTED, facts["used_nanos"], facts["used_gpu_us"]),
        (UNUSED, facts["unused_nanos"], facts["unused_gpu_us"]),
        (ADJUSTMENT, given_back, 0),
    ):
        if amount or gpu_us:
            row = plain_row(entry, calendar, kind, amount, exact_nanos=amount)
            yield row._replace(gpu_us=gpu_us)


def credit_row(entry: Entry, calendar: Calendar) -> ChargeRow:
    """A credit note: an invoice of its own, with negative money."""
    billed = -entry.facts["amount_nanos"]
    row = plain_row(entry, calendar, CREDIT, billed, exact_nanos=earned(entry))
    return row._replace(invoice_id=entry.facts["credit_note_id"], line=1)


def plain_row(
    entry: Entry, calendar: Calendar, kind: str, billed_nanos: int, *, exact_nanos: int = 0
) -> ChargeRow:
    """A row that is no time of a lease; in the hour it is about, or in which it was recorded."""
    facts, meta = entry.facts, entry.facts["meta"]
    at = facts.get("hour") or meta["at"]
    start, end = calendar.charge_period(at)
    period_start, period_end = calendar.around(at)
    return ChargeRow(
        tenant_id=meta["tenant_id"],
        start_us=start,
        end_us=end,
        lease_id=facts.get("lease_id", ""),
        kind=kind,
        invoice_id="",
        line=0,
        period_start_us=period_start,
        period_end_us=period_end,
        currency=facts["currency"],
        amount_nanos=exact_nanos,
        billed_nanos=billed_nanos,
        late=False,
        gpu_us=0,
        state="",
        project=facts.get("project", ""),
        workload_id=facts.get("workload_id", ""),
        gpu_model=facts.get("gpu_model", ""),
        gpu_count=0,
        price_nanos=0,
        per_gpu_us=0,
        price_version=0,
        market="",
        region="",
        commitment_id=facts.get("commitment_id", ""),
        position=entry.position,
        hash=entry.hash,
        topic=entry.topic,
    )
