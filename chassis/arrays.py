"""Columns of rows as PostgreSQL's binary arrays, packed at once.

psycopg packs an array element by element; a group of commands has thousands of elements, and
packing them is most of what the writer does while it commits.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

_HEADER = struct.Struct(">iiIii")
_LENGTH = struct.Struct(">i").pack
_INT4 = struct.Struct(">ii").pack
_INT8 = struct.Struct(">iq").pack


class Packed(bytes):
    """The binary form of an array; subclasses say of what."""

    array_oid: int
    element_oid: int


class Texts(Packed):
    array_oid, element_oid = 1009, 25


class Bytes(Packed):
    array_oid, element_oid = 1001, 17


class Int4s(Packed):
    array_oid, element_oid = 1007, 23


class Int8s(Packed):
    array_oid, element_oid = 1016, 20


def register(connection: psycopg.Connection[Any]) -> None:
    """Let a connection send packed arrays as they are."""
    for kind in (Texts, Bytes, Int4s, Int8s):
        name = f"{kind.__name__}Dumper"
        dumper = type(name, (_AsItIs,), {"oid": kind.array_oid})
        connection.adapters.register_dumper(kind, dumper)


class _AsItIs(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        return bytes(obj)


def columns(rows: Sequence[Sequence[Any]], kinds: str) -> tuple[Packed, ...]:
    """The columns of rows; ``kinds`` has a letter for each: t text, b bytes, i and q integers."""
    found = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    return tuple(_PACK[kind](column) for kind, column in zip(kinds, found, strict=True))


def _texts(column: Sequence[str]) -> Packed:
    return _variable(Texts, [text.encode() for text in column])


def _bytes(column: Sequence[bytes]) -> Packed:
    return _variable(Bytes, column)


def _variable(kind: type[Packed], column: Sequence[bytes]) -> Packed:
    return _array(kind, column, [part for item in column for part in (_LENGTH(len(item)), item)])


def _int4s(column: Sequence[int]) -> Packed:
    return _array(Int4s, column, [_INT4(4, number) for number in column])


def _int8s(column: Sequence[int]) -> Packed:
    return _array(Int8s, column, [_INT8(8, number) for number in column])


def _array(kind: type[Packed], column: Sequence[Any], parts: list[bytes]) -> Packed:
    if not column:
        return kind(_HEADER.pack(0, 0, kind.element_oid, 0, 0)[:12])
    return kind(_HEADER.pack(1, 0, kind.element_oid, len(column), 1) + b"".join(parts))


_PACK: dict[str, Callable[[Any], Packed]] = {
    "t": _texts,
    "b": _bytes,
    "i": _int4s,
    "q": _int8s,
}
