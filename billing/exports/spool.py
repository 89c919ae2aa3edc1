"""Sorting more than fits into memory: records go to a file on disk and come back in order.

Memory does not grow with the number of records: SQLite sorts within a fixed cache and spills.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

Key = tuple[str, str | int, str | int, str | int]

_CACHE_KIB = 16_384
_BATCH = 2_000


class Spool:
    """One table of keys and payloads in ``folder``, which its owner removes."""

    def __init__(self, folder: Path, name: str) -> None:
        # A reader may hop between threads, one at a time.
        self._database = sqlite3.connect(
            folder / f"{name}.sqlite", check_same_thread=False, isolation_level=None
        )
        for pragma in ("journal_mode=off", "synchronous=off", "temp_store=1"):
            self._database.execute(f"pragma {pragma}")
        self._database.execute(f"pragma cache_size=-{_CACHE_KIB}")
        self._database.execute("create table records (a, b, c, d, payload)")
        self._database.execute("begin")

    def add(self, records: Iterable[tuple[Key, bytes]]) -> None:
        self._database.executemany(
            "insert into records values (?, ?, ?, ?, ?)",
            ((*key, payload) for key, payload in records),
        )

    def sorted(self) -> Iterator[tuple[Key, bytes]]:
        cursor = self._database.execute(
            "select a, b, c, d, payload from records order by a, b, c, d"
        )
        while page := cursor.fetchmany(_BATCH):
            for a, b, c, d, payload in page:
                yield (a, b, c, d), payload

    def groups(self) -> Iterator[list[tuple[Key, bytes]]]:
        """Records that share the first two parts of their key, together."""
        for _, group in groupby(self.sorted(), key=lambda record: record[0][:2]):
            yield list(group)

    def close(self) -> None:
        self._database.close()
