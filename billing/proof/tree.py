"""The tree over a log that grows: small in memory, and no proof reads the whole log.

Kept are the hashes of complete subtrees of 256 leaves and above, an eighth of a byte and a bit
for each event. What lies below is hashed again from the log when a proof needs it, and must then
give the hash that is kept: an event that was changed since cannot get into a proof.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from billing.proof import merkle

TILE_LEVEL = 8
TILE = 1 << TILE_LEVEL
_HASH_BYTES = 32
# About 16 kB each; the events of one bill lie close together.
_TILES_CACHED = 64

# Hashes of the leaves [first, end).
Leaves = Callable[[int, int], list[bytes]]


class LogChanged(Exception):
    """The log is not the one that was hashed before."""


class Tree:
    def __init__(self, leaves: Leaves) -> None:
        self._leaves = leaves
        # Hashes of the complete subtrees of level TILE_LEVEL, TILE_LEVEL + 1 and so on.
        self._levels: list[bytearray] = [bytearray()]
        self._tail: list[bytes] = []
        self._cached: OrderedDict[int, list[list[bytes]]] = OrderedDict()

    @property
    def size(self) -> int:
        return self.tiles * TILE + len(self._tail)

    @property
    def tiles(self) -> int:
        return len(self._levels[0]) // _HASH_BYTES

    def append(self, leaf: bytes) -> bytes:
        """Grow by one leaf; answers the hash of the tile that it completed, or b""."""
        self._tail.append(leaf)
        if len(self._tail) < TILE:
            return b""
        (tile,) = list(_levels(self._tail))[-1]
        self._tail = []
        self.append_tile(tile)
        return tile

    def append_tile(self, tile: bytes) -> None:
        assert not self._tail, "a tile follows a tile"
        for level in self._levels:
            level += tile
            if len(level) // _HASH_BYTES % 2:
                return
            tile = merkle.node_hash(
                bytes(level[-2 * _HASH_BYTES : -_HASH_BYTES]), bytes(level[-_HASH_BYTES:])
            )
        self._levels.append(bytearray(tile))

    def root(self, size: int) -> bytes:
        return merkle.root(self._node, self._within(size))

    def inclusion(self, index: int, size: int) -> list[bytes]:
        return merkle.inclusion(self._node, index, self._within(size))

    def consistency(self, old: int, size: int) -> list[bytes]:
        return merkle.consistency(self._node, old, self._within(size))

    def _within(self, size: int) -> int:
        if size > self.size:
            raise ValueError(f"the tree has {self.size} leaves, not {size}")
        return size

    def _node(self, level: int, index: int) -> bytes:
        if level >= TILE_LEVEL:
            start = index * _HASH_BYTES
            return bytes(self._levels[level - TILE_LEVEL][start : start + _HASH_BYTES])
        tile, rest = divmod(index, TILE >> level)
        if tile == self.tiles:
            return _complete(self._tail, level, rest)
        return self._tile(tile)[level][rest]

    def _tile(self, tile: int) -> list[list[bytes]]:
        if (levels := self._cached.get(tile)) is not None:
            self._cached.move_to_end(tile)
            return levels
        levels = list(_levels(self._leaves(tile * TILE, (tile + 1) * TILE)))
        if levels[-1] != [self._node(TILE_LEVEL, tile)]:
            raise LogChanged(f"of events {tile * TILE + 1} to {(tile + 1) * TILE} one was changed")
        self._cached[tile] = levels
        if len(self._cached) > _TILES_CACHED:
            self._cached.popitem(last=False)
        return levels


def _levels(hashes: list[bytes]) -> Iterator[list[bytes]]:
    """The complete nodes over some leaves, level by level up to a single one."""
    yield hashes
    while len(hashes) > 1:
        pairs = range(0, len(hashes) - 1, 2)
        hashes = [merkle.node_hash(hashes[at], hashes[at + 1]) for at in pairs]
        yield hashes


def _complete(leaves: list[bytes], level: int, index: int) -> bytes:
    chosen = leaves[index << level : (index + 1) << level]
    (found,) = list(_levels(chosen))[-1]
    return found
