"""FOCUS rows as CSV: UTF-8, one header, line feeds, null as nothing, no number rounded."""

import csv
import io
from collections.abc import Sequence

from billing.exports.calendar import instant
from billing.exports.columns import Column, Kind
from billing.exports.values import Value


class CsvFile:
    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._text = io.StringIO()
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow([column.name for column in columns])

    def write(self, values: Sequence[Sequence[Value]]) -> bytes:
        """A batch, column by column; answers the bytes that are finished."""
        texts = [
            _texts(column.kind, found) for column, found in zip(self._columns, values, strict=True)
        ]
        self._writer.writerows(zip(*texts, strict=True))
        return self._taken()

    def close(self) -> bytes:
        return self._taken()

    def _taken(self) -> bytes:
        text = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return text.encode()


def _texts(kind: Kind, values: Sequence[Value]) -> list[str]:
    if kind is Kind.DECIMAL:
        return ["" if value is None else decimal_text(int(value)) for value in values]
    if kind is Kind.DATETIME:
        return ["" if value is None else datetime_text(int(value)) for value in values]
    return ["" if value is None else str(value) for value in values]


def decimal_text(nanos: int) -> str:
    """An integer of nano-units as the shortest decimal that is equal to it."""
    whole, rest = divmod(abs(nanos), 1_000_000_000)
    sign = "-" if nanos < 0 else ""
    return f"{sign}{whole}.{rest:09d}".rstrip("0") if rest else f"{sign}{whole}"


def datetime_text(at: int) -> str:
    """Whole seconds, as FOCUS has it; Parquet keeps what lies below."""
    return f"{instant(at).replace(tzinfo=None, microsecond=0).isoformat()}Z"
