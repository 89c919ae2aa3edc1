"""A service's log read from its database, every hash recomputed.

The store is read directly: a service cannot vouch for itself. A hash covers its event and all
before it, so whoever changes a row must rewrite every later one and the head, and then still
contradicts what others have seen (``witnesses``).
"""

import json
from collections.abc import Iterator

from chassis.canonical import GENESIS, chained
from chassis.events import Recorded
from chassis.store import Store

_SIZE = len(GENESIS)


class Chain:
    """The hashes of a log by position; position 0 is before the first event."""

    def __init__(self) -> None:
        # One block of bytes: a list of a million hashes would take five times as much.
        self._hashes = bytearray(GENESIS)
        # How large each event is that may be too large for the bus.
        self.large: dict[int, int] = {}

    @property
    def head(self) -> int:
        return len(self._hashes) // _SIZE - 1

    def hash(self, position: int) -> bytes:
        return bytes(self._hashes[position * _SIZE : (position + 1) * _SIZE])

    def append(self, row: Recorded, large_bytes: int) -> None:
        self._hashes += row.hash
        if len(row.data) > large_bytes:
            self.large[row.position] = len(row.data)


def read(store: Store, large_bytes: int) -> tuple[Chain, str]:
    """The chain as far as it holds, and the first thing wrong with it, or ""."""
    chain = Chain()
    before = store.head()
    for row, wrong in _rows(store):
        if wrong:
            return chain, wrong
        chain.append(row, large_bytes)
    # Asked again: rows may have been added meanwhile, and none lies beyond the head.
    after = store.head()
    if before.position > chain.head:
        return chain, f"position {chain.head + 1} is missing: the head is at {before.position}"
    if chain.head > after.position:
        return chain, f"position {after.position + 1} lies beyond the head"
    if before.hash != chain.hash(before.position):
        return chain, f"the head at {before.position} has another hash than the chain"
    return chain, ""


def _rows(store: Store) -> Iterator[tuple[Recorded, str]]:
    """Each row with what is wrong at it; the caller ends at the first difference."""
    hash_, expected = GENESIS, 1
    for page in store.replay():
        for row in page:
            hash_ = chained(hash_, row.data)
            yield row, _difference(row, hash_, expected)
            expected += 1


def _difference(row: Recorded, hash_: bytes, expected: int) -> str:
    if row.position != expected:
        return f"position {expected} is missing"
    if row.hash != hash_:
        return (
            f"position {row.position}: the stored bytes are not those that were hashed"
            f" ({row.topic} of {row.aggregate_id}, version {row.version})"
        )
    if columns := _columns_that_lie(row):
        return f"position {row.position}: {columns} differs from the hashed bytes"
    return ""


def _columns_that_lie(row: Recorded) -> str:
    """The columns by which rows are found; what they say stands in the hashed bytes, too."""
    try:
        meta = json.loads(row.data)["meta"]
    except (ValueError, TypeError, KeyError):
        return "the form of the event"
    names = ("aggregate_id", "version", "topic", "tenant_id", "correlation_id")
    return ", ".join(name for name in names if meta.get(name) != getattr(row, name))
