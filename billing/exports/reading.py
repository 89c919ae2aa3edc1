"""Files of FOCUS rows as they are found, CSV or Parquet, row by row; nothing is trusted yet.

A value comes as the column's kind says, or as ``Wrong`` if the file says something else.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from billing.exports.columns import Column, Kind

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", re.ASCII)
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_PARQUET_MAGIC = b"PAR1"
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Wrong:
    """A value that its column cannot have."""

    found: str


@dataclass(frozen=True, slots=True)
class Table:
    header: list[str]
    rows: Iterator[Sequence[Any]]


def opened(path: Path) -> Table:
    with path.open("rb") as file:
        is_parquet = file.read(4) == _PARQUET_MAGIC
    return _parquet(path) if is_parquet else _csv(path)


def _csv(path: Path) -> Table:
    lines = _lines(path)
    return Table(next(lines, []), lines)


def _lines(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.reader(file)


def _parquet(path: Path) -> Table:
    import pyarrow.parquet as pq  # takes a third of a second, and CSV needs none of it

    file = pq.ParquetFile(path)

    def rows() -> Iterator[Sequence[Any]]:
        for batch in file.iter_batches(batch_size=_BATCH):
            columns = [column.to_pylist() for column in batch.columns]
            yield from zip(*columns, strict=True)

    return Table(file.schema_arrow.names, rows())


def value(column: Column, found: Any) -> Any:
    """What a cell holds: None, text, a Decimal, a datetime, an object; or Wrong."""
    if found is None or found == "":
        return None
    try:
        return _READERS[column.kind](found)
    except (ValueError, TypeError, KeyError):
        return Wrong(str(found)[:80])


def _decimal(found: Any) -> Decimal:
    if isinstance(found, Decimal):
        return found
    if not _DECIMAL.fullmatch(found):
        raise ValueError(found)
    return Decimal(found)


def _datetime(found: Any) -> datetime:
    if isinstance(found, datetime):
        return found
    if not _INSTANT.fullmatch(found):
        raise ValueError(found)
    return datetime.fromisoformat(found)


def _string(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError(found)
    return found


def _object(found: Any) -> dict[str, Any]:
    parsed = json.loads(_string(found))
    if not isinstance(parsed, dict):
        raise ValueError(found)
    return parsed


_READERS = {
    Kind.STRING: _string,
    Kind.DECIMAL: _decimal,
    Kind.DATETIME: _datetime,
    Kind.JSON: _object,
}
