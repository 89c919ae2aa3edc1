"""The tree of a service's log, with its tiles kept in a file between two starts.

The file is a cache: without it the log is hashed from its beginning. Its hashes are believed only
if they give the root of the last head that was signed.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from billing.proof import merkle
from billing.proof.tree import TILE, LogChanged, Tree
from chassis.events import Recorded

PAGE = 5_000
_HASH_BYTES = 32


class Rows(Protocol):
    """What the tree reads of a store."""

    def read(self, after: int, limit: int) -> list[Recorded]: ...


class Followed:
    """A tree that follows a log. One thread at a time."""

    def __init__(self, rows: Rows, file: Path) -> None:
        self._rows = rows
        self._file = file
        self.tree = Tree(self._leaves)
        self._begun = False

    def catch_up(self, until: int, *, size: int = 0, root: str = "") -> Tree:
        """Hash what the log holds up to a position. ``root`` is what was signed at ``size``."""
        if not self._begun:
            self._load(until)
            self._grow(until)
            if not self._gives(size, root):
                # The file is not the log's; the log itself decides.
                self._file.unlink(missing_ok=True)
                self.tree = Tree(self._leaves)
            self._begun = True
        self._grow(until)
        if not self._gives(size, root):
            raise LogChanged(f"the first {size} events are not those whose root was signed")
        return self.tree

    def _gives(self, size: int, root: str) -> bool:
        if size > self.tree.size:
            return False
        try:
            return size == 0 or self.tree.root(size).hex() == root
        except LogChanged:
            return False

    def _load(self, until: int) -> None:
        try:
            kept = self._file.read_bytes()
        except FileNotFoundError:
            return
        for start in range(
            0, min(len(kept) // _HASH_BYTES, until // TILE) * _HASH_BYTES, _HASH_BYTES
        ):
            self.tree.append_tile(kept[start : start + _HASH_BYTES])

    def _grow(self, until: int) -> None:
        before, made = self.tree.tiles, bytearray()
        for row in pages(self._rows.read, self.tree.size, until):
            made += self.tree.append(merkle.leaf_hash(row.data))
        if made:
            self._save(before, bytes(made))

    def _save(self, tiles: int, made: bytes) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, tiles * _HASH_BYTES)
            os.pwrite(descriptor, made, tiles * _HASH_BYTES)
        finally:
            os.close(descriptor)

    def _leaves(self, first: int, end: int) -> list[bytes]:
        return [merkle.leaf_hash(row.data) for row in self._rows.read(first, end - first)]


def pages(read: Callable[[int, int], list[Recorded]], after: int, until: int) -> Iterator[Recorded]:
    while after < until:
        page = read(after, min(PAGE, until - after))
        if not page or page[0].position != after + 1:
            raise LogChanged(f"position {after + 1} is missing")
        yield from page
        after = page[-1].position
