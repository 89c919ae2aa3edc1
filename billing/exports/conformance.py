"""Our own checker of FOCUS 1.4 files: columns, types, nulls, allowed values, rules between rows.

It knows nothing of how a file was made: it reads CSV or Parquet and says what is wrong with it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from billing.exports import invariants
from billing.exports.columns import CONDITIONAL, DATASETS, MANDATORY, OWN, Column
from billing.exports.findings import Finding, Rule
from billing.exports.reading import Table, Wrong, opened, value

FINDINGS_MAX = 1_000
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_CURRENCIES = ("BillingCurrency", "PaymentCurrency", "PricingCurrency")


def dataset_of(header: list[str]) -> str:
    """The dataset that most of the columns belong to."""

    def shared(name: str) -> int:
        return len({column.name for column in DATASETS[name]} & set(header))

    return max(DATASETS, key=shared)


def check(path: Path, *, dataset: str = "", details: Path | None = None) -> list[Finding]:
    """What is wrong with a file, at most ``FINDINGS_MAX``; ``details`` is its InvoiceDetail."""
    table = opened(path)
    dataset = dataset or dataset_of(table.header)
    found = list(header_findings(dataset, table.header))
    if any(finding.rule is not Rule.COLUMN_UNKNOWN for finding in found):
        return found
    for finding in _row_findings(dataset, table, _payable(details)):
        found.append(finding)
        if len(found) >= FINDINGS_MAX:
            break
    return found


def header_findings(dataset: str, header: list[str]) -> Iterator[Finding]:
    known = {column.name: column for column in DATASETS[dataset]}
    for column in known.values():
        if column.level == MANDATORY and column.name not in header:
            yield Finding(Rule.COLUMN_MISSING, 0, column.name, f"{dataset} must have it")
    seen: set[str] = set()
    own_before = ""
    for name in header:
        if name in seen:
            yield Finding(Rule.COLUMN_REPEATED, 0, name, "stands twice")
        seen.add(name)
        if name.startswith("x_"):
            own_before = own_before or name
        elif name not in known:
            yield Finding(
                Rule.COLUMN_UNKNOWN, 0, name, f"{dataset} of FOCUS 1.4 has no such column"
            )
        elif own_before:
            yield Finding(Rule.COLUMN_ORDER, 0, name, f"stands after {own_before}")


def _row_findings(
    dataset: str, table: Table, payable: dict[tuple[Any, ...], Any] | None
) -> Iterator[Finding]:
    known = {column.name: column for column in DATASETS[dataset]}
    columns = [known.get(name) for name in table.header]
    between = invariants.Between(payable) if dataset == "CostAndUsage" else None
    ids: set[tuple[str, str]] = set()
    for number, cells in enumerate(table.rows, 1):
        if len(cells) != len(columns):
            detail = f"{len(cells)} values for {len(columns)} columns"
            yield Finding(Rule.ROW_LENGTH, number, "", detail)
            continue
        row: dict[str, Any] = {}
        for column, cell in zip(columns, cells, strict=True):
            if column is not None:
                row[column.name] = value(column, cell)
        wrong = [
            finding
            for column in columns
            if column is not None
            for finding in _value_findings(number, column, row[column.name])
        ]
        yield from wrong
        if wrong:
            continue
        yield from invariants.of_a_row(dataset, number, row)
        if between is not None:
            yield from between.findings(number, row)
        elif dataset == "InvoiceDetail":
            yield from _repeated(number, row, ids)
    if between is not None:
        yield from between.at_the_end()


def _value_findings(number: int, column: Column, found: Any) -> Iterator[Finding]:
    if isinstance(found, Wrong):
        yield Finding(Rule.TYPE, number, column.name, f"{found.found!r} is no {column.kind}")
    elif found is None:
        if not column.nullable and column.level in (MANDATORY, CONDITIONAL, OWN):
            yield Finding(Rule.NULL, number, column.name, "may not be null")
    elif column.allowed and found not in column.allowed:
        detail = f"{found!r} is none of {', '.join(column.allowed)}"
        yield Finding(Rule.ALLOWED_VALUE, number, column.name, detail)
    elif column.name in _CURRENCIES and not _CURRENCY.fullmatch(found):
        yield Finding(Rule.CURRENCY, number, column.name, f"{found!r} is no code of ISO 4217")


def _repeated(number: int, row: dict[str, Any], ids: set[tuple[str, str]]) -> Iterator[Finding]:
    key = (row["InvoiceId"], row["InvoiceDetailId"])
    if key in ids:
        yield Finding(Rule.DETAIL_REPEATED, number, "InvoiceDetailId", f"{key[1]} stands twice")
    ids.add(key)


def _payable(path: Path | None) -> dict[tuple[Any, ...], Any] | None:
    """What each line of each invoice comes to, by the three columns that charges join on."""
    if path is None:
        return None
    table = opened(path)
    known = {column.name: column for column in DATASETS["InvoiceDetail"]}
    found: dict[tuple[Any, ...], Any] = {}
    for cells in table.rows:
        row = {
            name: value(known[name], cell)
            for name, cell in zip(table.header, cells, strict=True)
            if name in known
        }
        found[tuple(row.get(name) for name in invariants.JOINED)] = row.get("BilledCost")
    return found
