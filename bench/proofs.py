"""Inclusion proofs from kept subtrees, against computing the tree again for each proof.

The log is in memory, so that the figures are the tree's own; on PostgreSQL a proof reads the 256
rows of its leaf's tile in addition. ``python -m bench.proofs`` runs this part alone.
"""

import random
import time
from collections.abc import Sequence

from bench.results import Results, Row
from billing.proof import merkle
from billing.proof.tree import Tree

SIZES = (100_000, 1_000_000)
PROOFS = 500
EVENT_BYTES = 600


def measure(results: Results) -> None:
    for size in SIZES:
        leaves = [merkle.leaf_hash(_event(number)) for number in range(size)]
        tree = Tree(lambda first, end: [merkle.leaf_hash(_event(n)) for n in range(first, end)])
        began = time.perf_counter()
        for leaf in leaves:
            tree.append(leaf)
        grown = size / (time.perf_counter() - began)
        naive = _naive(leaves, size // 3, tree)
        ours = _proofs(tree, leaves)
        name = f"{size // 1000:,d} k events"
        results.add(Row(f"tree append, {name}", grown, "leaves/s"))
        results.add(Row(f"inclusion proof computed anew, {name}", naive * 1e3, "ms"))
        results.add(
            Row(f"inclusion proof, {name}", ours * 1e3, "ms", naive / ours, "computed anew")
        )
        results.add(Row(f"consistency proof, {name}", _consistency(tree) * 1e3, "ms"))


def _proofs(tree: Tree, leaves: Sequence[bytes]) -> float:
    """Seconds for one proof; leaves at random, so that hardly any tile is cached."""
    chosen = random.Random(1).sample(range(tree.size), PROOFS)
    root = tree.root(tree.size)
    began = time.perf_counter()
    paths = [tree.inclusion(index, tree.size) for index in chosen]
    seconds = time.perf_counter() - began
    for index, path in zip(chosen, paths, strict=True):
        assert merkle.is_included(leaves[index], index, tree.size, path, root)
    return seconds / PROOFS


def _consistency(tree: Tree) -> float:
    sizes = random.Random(2).sample(range(1, tree.size), PROOFS)
    began = time.perf_counter()
    for size in sizes:
        tree.consistency(size, tree.size)
    return (time.perf_counter() - began) / PROOFS


def _naive(leaves: list[bytes], index: int, tree: Tree) -> float:
    """Seconds for one proof that begins with the leaves' hashes and keeps nothing."""
    began = time.perf_counter()
    path, level, here = [], leaves, index
    while len(level) > 1:
        if (sibling := here ^ 1) < len(level):
            path.append(level[sibling])
        pairs = range(0, len(level) - 1, 2)
        above = [merkle.node_hash(level[at], level[at + 1]) for at in pairs]
        level, here = above + level[len(level) & ~1 :], here // 2
    seconds = time.perf_counter() - began
    assert path == tree.inclusion(index, len(leaves))
    return seconds


def _event(number: int) -> bytes:
    return (b'{"event":%d}' % number).ljust(EVENT_BYTES)


if __name__ == "__main__":
    measure(Results())
