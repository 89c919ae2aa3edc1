"""What values of FOCUS rows are, and how charges and invoice lines are named alike. Pure.

A value is what its column's kind says: decimals are integers of nano-units, instants are integers
of microseconds, JSON is canonical text; None is null. Writers turn them into bytes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from billing.exports.rows import ADJUSTMENT, CREDIT, TAX
from chassis import canonical

Value = str | int | None
Source = Callable[[Any], Value]

_CATEGORIES = {ADJUSTMENT: "Adjustment", CREDIT: "Credit", TAX: "Tax"}


def category(kind: str) -> str:
    return _CATEGORIES.get(kind, "Usage")


def detail_id(invoice_id: str, line: int, kind: str) -> str | None:
    """Joins a charge to its line; the tax of a line is a line of its own."""
    if not invoice_id:
        return None
    return f"{invoice_id}/{line}/tax" if kind == TAX else f"{invoice_id}/{line}"


def json_text(value: Mapping[str, Any]) -> str:
    return canonical.dumps(dict(value)).decode()
