"""FOCUS rows as Parquet: decimal128(38, 9), instants in microseconds UTC, zstd, sorted row groups.

The same rows give the same bytes: row groups have a fixed size and nothing of the moment of
writing goes into the file. A row group is all that is held in memory.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from billing.exports.columns import Column, Kind
from billing.exports.values import Value

DECIMAL = pa.decimal128(38, 9)
INSTANT = pa.timestamp("us", tz="UTC")
_TYPES = {
    Kind.STRING: pa.string(),
    Kind.JSON: pa.string(),
    Kind.DECIMAL: DECIMAL,
    Kind.DATETIME: INSTANT,
}
_ZERO = bytes(16)


def schema(columns: Sequence[Column]) -> Any:
    fields = [
        pa.field(column.name, _TYPES[column.kind], nullable=column.nullable) for column in columns
    ]
    return pa.schema(fields, metadata={"focus_version": "1.4"})


class _Sink:
    """Takes what the writer has finished; nothing is ever read back."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        return len(self.parts[-1])

    def flush(self) -> None:
        """Everything written is taken already."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        data, self.parts = b"".join(self.parts), []
        return data


class ParquetFile:
    def __init__(self, columns: Sequence[Column]) -> None:
        self._schema = schema(columns)
        self._sink = _Sink()
        self._file = pa.PythonFile(self._sink, mode="w")
        self._writer = pq.ParquetWriter(
            self._file, self._schema, compression="zstd", version="2.6", store_schema=False
        )

    def write(self, values: Sequence[Sequence[Value]]) -> bytes:
        """One row group, column by column; answers the bytes that are finished."""
        arrays = [
            array(field.type, found) for field, found in zip(self._schema, values, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        return self._sink.taken()

    def close(self) -> bytes:
        self._writer.close()
        return self._sink.taken()


def array(kind: Any, values: Sequence[Value]) -> Any:
    if kind != DECIMAL:
        return pa.array(values, type=kind)
    # From the integers themselves: no number passes through anything that could round it.
    data = b"".join(
        [
            _ZERO if value is None else int(value).to_bytes(16, "little", signed=True)
            for value in values
        ]
    )
    valid = None
    if any(value is None for value in values):
        valid = pa.array([value is not None for value in values]).buffers()[1]
    return pa.Array.from_buffers(DECIMAL, len(values), [valid, pa.py_buffer(data)])
