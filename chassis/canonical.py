"""Canonical JSON: the one encoding in which events and states are stored, hashed and published.

Sorted keys, no spaces, UTF-8, integers only. A float would make two machines disagree about a
hash, so it is refused before anything is written.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

GENESIS = bytes(32)


class NotCanonical(TypeError):
    """A value has no canonical form."""


def dumps(value: dict[str, Any]) -> bytes:
    refuse_floats(value)
    return dumps_checked(value)


def dumps_checked(value: dict[str, Any]) -> bytes:
    """``dumps`` for a value that is known to hold no float."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


loads = orjson.loads


def chained(previous: bytes, data: bytes) -> bytes:
    """The chain hash after ``data``; the chain starts at GENESIS."""
    return hashlib.sha256(previous + data).digest()


def refuse_floats(value: dict[str, Any] | list[Any]) -> None:
    items: Iterable[Any] = value.values() if isinstance(value, dict) else value
    for item in items:
        kind = type(item)
        if kind is dict or kind is list:
            refuse_floats(item)
        elif kind is float:
            raise NotCanonical(f"{item!r} is a float; use integers")
