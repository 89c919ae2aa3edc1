"""An invoice as one page to print: nothing is loaded from elsewhere, all of it is escaped. Pure."""

from datetime import UTC, datetime
from html import escape
from typing import Any

_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;color:#1b1b1b;margin:2.5rem auto;
max-width:60rem;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 1rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.5rem}
dt{color:#666}dd{margin:0}table{width:100%;border-collapse:collapse;
margin:1.5rem 0;font-size:12px}
th,td{text-align:left;padding:.35rem .5rem;border-bottom:1px solid #ddd;overflow-wrap:anywhere}
th{color:#666;font-weight:600}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
tfoot td{font-weight:600;border-bottom:0}
@media print{@page{size:A4;margin:18mm}body{margin:0;max-width:none;padding:0}
thead{display:table-header-group}tr{break-inside:avoid}}
""".strip().replace("\n", "")
_LINE = ("#", "Lease", "Project", "GPUs", "From (UTC)", "Until (UTC)", "GPU-hours", "Amount")
_CREDIT = ("Credit note", "Line", "Reason", "Amount")


def page(invoice: dict[str, Any]) -> str:
    title = f"Invoice {invoice['number']}"
    facts = [
        ("Invoice", invoice["invoice_id"]),
        ("Tenant", invoice["tenant_id"]),
        ("Issued (UTC)", _moment(invoice["issued_at"])),
        ("Period", invoice["period_id"] or "–"),
        ("Currency", invoice["currency"]),
    ]
    head = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>',
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{_STYLE}</style></head><body><h1>{_text(title)}</h1><dl>{head}</dl>",
        _table(_LINE, [_line(line) for line in invoice["lines"]], _totals(invoice)),
    ]
    if invoice["credits"]:
        parts.append(_table(_CREDIT, [_credit(note) for note in invoice["credits"]], []))
    return "\n".join([*parts, "</body></html>\n"])


def _line(line: dict[str, Any]) -> list[Any]:
    kind = "" if line["charge"] in ("", "USAGE") else f" ({line['charge'].lower()})"
    return [
        line["line"],
        line["lease_id"] + kind,
        line["project"],
        f"{line['gpu_count']} × {line['gpu_model']}",
        _moment(line["activated_at"]),
        _moment(line["ended_at"]),
        _hours(line["gpu_us"]),
        line["amount"],
    ]


def _credit(note: dict[str, Any]) -> list[Any]:
    return [note["credit_note_id"], note["line"], note["reason"], f"-{note['amount']}"]


def _totals(invoice: dict[str, Any]) -> list[tuple[str, str]]:
    taxed = [("Tax", invoice["tax"])] if invoice["tax_nanos"] != "0" else []
    return [*taxed, (f"Total {invoice['currency']}", invoice["total"])]


def _table(columns: tuple[str, ...], rows: list[list[Any]], totals: list[tuple[str, str]]) -> str:
    names = "".join(f"<th{_number(name)}>{_text(name)}</th>" for name in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_number(name)}>{_text(cell)}</td>"
            for name, cell in zip(columns, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    foot = "".join(
        f'<tr><td colspan="{len(columns) - 1}" class="n">{_text(name)}</td>'
        f'<td class="n">{_text(value)}</td></tr>'
        for name, value in totals
    )
    return (
        f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table>"
    )


def _number(column: str) -> str:
    return ' class="n"' if column in ("#", "GPU-hours", "Amount", "Line") else ""


def _text(value: Any) -> str:
    return escape(str(value), quote=True)


def _moment(micros: int) -> str:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _hours(gpu_us: int) -> str:
    sign, whole = ("-" if gpu_us < 0 else ""), abs(gpu_us) * 10_000 // 3_600_000_000
    return f"{sign}{whole // 10_000}.{whole % 10_000:04d}"
