"""The Merkle tree of RFC 6962 over SHA-256: roots, proofs, and their verification. Pure.

A proof is made of hashes of complete subtrees, which never change once they are complete; ``Node``
is where they come from. The verifiers follow RFC 9162 and share nothing with what makes the
proofs but the two hash functions.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

# The hash of the complete subtree over leaves [index << level, (index + 1) << level).
Node = Callable[[int, int], bytes]

EMPTY = sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A tree that only grows and only knows its root: one hash for each bit of its size."""

    def __init__(self) -> None:
        self.size = 0
        # Roots of complete subtrees, the largest and leftmost first.
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        self.size += 1
        self._peaks.append(leaf)
        rest = self.size
        while rest % 2 == 0:
            right, left = self._peaks.pop(), self._peaks.pop()
            self._peaks.append(node_hash(left, right))
            rest //= 2

    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY
        *others, found = self._peaks
        for peak in reversed(others):
            found = node_hash(peak, found)
        return found


# Making proofs.


def root(node: Node, size: int) -> bytes:
    return _subtree(node, 0, size) if size else EMPTY


def inclusion(node: Node, index: int, size: int) -> list[bytes]:
    """The path from leaf ``index`` to the root of the first ``size`` leaves, lowest first."""
    if not 0 <= index < size:
        raise ValueError(f"no leaf {index} in a tree of {size}")
    path, first, end = [], 0, size
    while end - first > 1:
        middle = first + _split(end - first)
        if index < middle:
            path.append(_subtree(node, middle, end))
            end = middle
        else:
            path.append(_subtree(node, first, middle))
            first = middle
    return path[::-1]


def consistency(node: Node, old: int, size: int) -> list[bytes]:
    """What shows that the tree of ``size`` begins with the tree of ``old`` leaves."""
    if not 0 <= old <= size:
        raise ValueError(f"a tree of {size} has no beginning of {old}")
    if old == 0:
        return []
    path, first, end = [], 0, size
    while old < end:
        middle = first + _split(end - first)
        if old <= middle:
            path.append(_subtree(node, middle, end))
            end = middle
        else:
            path.append(_subtree(node, first, middle))
            first = middle
    if first:
        path.append(_subtree(node, first, end))
    return path[::-1]


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1


def _subtree(node: Node, first: int, end: int) -> bytes:
    size = end - first
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return node(level, first >> level)
    middle = first + _split(size)
    return node_hash(_subtree(node, first, middle), _subtree(node, middle, end))


# Verifying them.


def is_included(leaf: bytes, index: int, size: int, path: Iterable[bytes], root: bytes) -> bool:
    if not 0 <= index < size:
        return False
    here, last, found = index, size - 1, leaf
    for hash_ in path:
        if last == 0:
            return False
        if here % 2 or here == last:
            found = node_hash(hash_, found)
            here, last = _above_right_edge(here, last)
        else:
            found = node_hash(found, hash_)
        here, last = here // 2, last // 2
    return last == 0 and found == root


def is_consistent(old: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    if not 0 <= old <= size:
        return False
    if old in (0, size):
        return not path and old_root == (EMPTY if old == 0 else root)
    hashes = [old_root, *path] if old & (old - 1) == 0 else list(path)
    if not hashes:
        return False
    here, last = old - 1, size - 1
    while here % 2:
        here, last = here // 2, last // 2
    found_old = found = hashes[0]
    for hash_ in hashes[1:]:
        if last == 0:
            return False
        if here % 2 or here == last:
            found_old, found = node_hash(hash_, found_old), node_hash(hash_, found)
            here, last = _above_right_edge(here, last)
        else:
            found = node_hash(found, hash_)
        here, last = here // 2, last // 2
    return last == 0 and found_old == old_root and found == root


def _above_right_edge(here: int, last: int) -> tuple[int, int]:
    """Skip the levels on which a node at the right edge has no sibling."""
    while here and here % 2 == 0:
        here, last = here // 2, last // 2
    return here, last
