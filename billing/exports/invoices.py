"""Issued invoices and credit notes, line by line, as the InvoiceDetail dataset has them. Pure."""

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import orjson

from billing.exports.calendar import Calendar
from billing.exports.entries import CREDITED, ISSUED
from billing.exports.focus import InvoiceLine
from billing.exports.rows import CREDIT, TAX, USAGE, Entry


def lines(group: list[Entry], calendar: Calendar) -> Iterator[InvoiceLine]:
    for entry in group:
        if entry.topic == ISSUED:
            for line in entry.facts["lines"]:
                yield from _issued(entry, line, calendar)
        elif entry.topic == CREDITED:
            yield _credited(entry, calendar)


def _issued(entry: Entry, line: dict[str, Any], calendar: Calendar) -> Iterator[InvoiceLine]:
    text = f"{line['gpu_count']} × {line['gpu_model']}"
    yield _line(entry, calendar, line, USAGE, line["amount_nanos"], text)
    if tax := line.get("tax_nanos", 0):
        yield _line(entry, calendar, line, TAX, tax, f"tax on {text}")


def _line(
    entry: Entry,
    calendar: Calendar,
    line: dict[str, Any],
    kind: str,
    amount_nanos: int,
    description: str,
) -> InvoiceLine:
    meta = entry.facts["meta"]
    period = calendar.periods.get(entry.facts.get("period_id", ""))
    at = min(line["activated_at"], line["ended_at"])
    edges = (period.start_us, period.end_us) if period else calendar.around(at)
    return InvoiceLine(
        tenant_id=meta["tenant_id"],
        invoice_id=meta["aggregate_id"],
        line=line["line"],
        period_start_us=edges[0],
        period_end_us=edges[1],
        currency=entry.facts["currency"],
        amount_nanos=amount_nanos,
        kind=kind,
        issued_at=meta["at"],
        description=description,
        lease_id=line["lease_id"],
        reference_id=meta["aggregate_id"],
    )


def _credited(entry: Entry, calendar: Calendar) -> InvoiceLine:
    facts, meta = entry.facts, entry.facts["meta"]
    edges = calendar.around(meta["at"])
    return InvoiceLine(
        tenant_id=meta["tenant_id"],
        invoice_id=facts["credit_note_id"],
        line=1,
        period_start_us=edges[0],
        period_end_us=edges[1],
        currency=facts["currency"],
        amount_nanos=-facts["amount_nanos"],
        kind=CREDIT,
        issued_at=meta["at"],
        description=facts["reason"],
        lease_id="",
        reference_id=meta["aggregate_id"],
    )


def packed(line: InvoiceLine) -> bytes:
    return orjson.dumps(astuple(line))


def unpacked(payload: bytes) -> InvoiceLine:
    return InvoiceLine(*orjson.loads(payload))
