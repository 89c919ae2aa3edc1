"""Keys in order, each with its rank. Pure.

A sorted list in blocks, with a Fenwick tree over the sizes of the blocks: adding, removing and
ranking cost O(log n) and a shift within one block, so a position among a million keys is as
quick to tell as among ten. Keys are unique and never change while they are in.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

_BLOCK_MAX = 512


class Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Ordered)


class Ranking(Generic[K]):
    def __init__(self, keys: Iterable[K] = ()) -> None:
        ordered = sorted(keys)
        half = _BLOCK_MAX // 2
        self._blocks = [ordered[i : i + half] for i in range(0, len(ordered), half)]
        self._size = len(ordered)
        self._index()

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for block in self._blocks:
            yield from block

    def add(self, key: K) -> None:
        self._size += 1
        if not self._blocks:
            self._blocks.append([key])
            self._index()
            return
        at = min(bisect_left(self._lasts, key), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, key)
        self._lasts[at] = block[-1]
        if len(block) > _BLOCK_MAX:
            middle = len(block) // 2
            self._blocks[at : at + 1] = [block[:middle], block[middle:]]
            self._index()
        else:
            self._count(at, 1)

    def remove(self, key: K) -> None:
        at, offset = self._find(key)
        block = self._blocks[at]
        del block[offset]
        self._size -= 1
        if block:
            self._lasts[at] = block[-1]
            self._count(at, -1)
        else:
            del self._blocks[at]
            self._index()

    def rank(self, key: K) -> int:
        """How many keys are before this one."""
        at, offset = self._find(key)
        before, node = offset, at
        while node:
            before += self._counts[node]
            node &= node - 1
        return before

    def first(self) -> K | None:
        return self._blocks[0][0] if self._blocks else None

    def after(self, key: K) -> K | None:
        """The key that follows ``key``, which need not be in."""
        at = bisect_right(self._lasts, key)
        if at == len(self._blocks):
            return None
        block = self._blocks[at]
        return block[bisect_right(block, key)]

    def _find(self, key: K) -> tuple[int, int]:
        at = bisect_left(self._lasts, key)
        if at < len(self._blocks):
            offset = bisect_left(self._blocks[at], key)
            if self._blocks[at][offset] == key:
                return at, offset
        raise KeyError(key)

    def _count(self, at: int, change: int) -> None:
        node = at + 1
        while node < len(self._counts):
            self._counts[node] += change
            node += node & -node

    def _index(self) -> None:
        """Blocks came or went: rare, because they split and empty by halves."""
        self._lasts = [block[-1] for block in self._blocks]
        self._counts = [0] * (len(self._blocks) + 1)
        for at, block in enumerate(self._blocks):
            self._counts[at + 1] += len(block)
            parent = at + 1 + ((at + 1) & -(at + 1))
            if parent < len(self._counts):
                self._counts[parent] += self._counts[at + 1]
