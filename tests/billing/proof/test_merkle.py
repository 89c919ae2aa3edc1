"""The tree against RFC 6962: published vectors, an independent implementation, random sizes."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.proof import merkle
from billing.proof.tree import TILE, LogChanged, Tree
from tests.billing.proof import naive

# The leaves of the vectors that implementations of Certificate Transparency share.
VECTOR = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


@pytest.mark.parametrize("size", range(1, len(VECTOR) + 1))
def test_the_shared_vectors_have_their_roots(size: int) -> None:
    assert grown(VECTOR[:size]).root(size).hex() == ROOTS[size - 1]
    assert frontier(VECTOR[:size]).root().hex() == ROOTS[size - 1]
    assert naive.mth(VECTOR[:size]).hex() == ROOTS[size - 1]


def test_an_empty_tree_has_the_hash_of_nothing() -> None:
    assert grown([]).root(0) == frontier([]).root() == naive.mth([])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_proofs_are_those_of_the_rfc_and_verify(data: st.DataObject) -> None:
    leaves = events(data.draw(st.integers(1, 700)))
    size = data.draw(st.integers(1, len(leaves)))
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    tree, part = grown(leaves), leaves[:size]
    root = tree.root(size)
    assert root == naive.mth(part) == frontier(part).root()
    path = tree.inclusion(index, size)
    assert path == naive.path(index, part)
    assert merkle.is_included(merkle.leaf_hash(part[index]), index, size, path, root)
    proof = tree.consistency(old, size)
    assert proof == naive.proof(old, part)
    assert merkle.is_consistent(old, tree.root(old), size, root, proof)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_wrong_leaf_place_size_path_or_root_is_not_included(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 80))
    index = data.draw(st.integers(0, size - 1))
    leaves = events(size)
    tree = grown(leaves)
    leaf, root, path = merkle.leaf_hash(leaves[index]), tree.root(size), tree.inclusion(index, size)
    other = data.draw(st.integers(0, size - 1).filter(lambda one: one != index))
    at = data.draw(st.integers(0, len(path) - 1))
    flipped = [flip(hash_) if number == at else hash_ for number, hash_ in enumerate(path)]
    assert not merkle.is_included(flip(leaf), index, size, path, root)
    assert not merkle.is_included(leaf, other, size, path, root)
    assert not merkle.is_included(leaf, index, size, flipped, root)
    assert not merkle.is_included(leaf, index, size, path[:-1], root)
    assert not merkle.is_included(leaf, index, size, [*path, root], root)
    assert not merkle.is_included(leaf, index, size, path, flip(root))
    assert not merkle.is_included(leaf, size, size, path, root)
    assert not merkle.is_included(leaf, -1, size, path, root)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_history_that_was_rewritten_is_not_consistent(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 80))
    old = data.draw(st.integers(1, size - 1))
    changed = data.draw(st.integers(0, old - 1))
    leaves = events(size)
    rewritten = [*leaves[:changed], b"forged", *leaves[changed + 1 :]]
    before, after = grown(leaves), grown(rewritten)
    old_root, root = before.root(old), after.root(size)
    assert not merkle.is_consistent(old, old_root, size, root, after.consistency(old, size))
    assert not merkle.is_consistent(old, old_root, size, root, before.consistency(old, size))
    assert not merkle.is_consistent(old, old_root, size, root, [])
    assert not merkle.is_consistent(size, root, old, old_root, [])


def test_equal_sizes_are_consistent_only_if_equal() -> None:
    tree = grown(events(5))
    assert merkle.is_consistent(5, tree.root(5), 5, tree.root(5), [])
    assert not merkle.is_consistent(5, tree.root(4), 5, tree.root(5), [])
    assert merkle.is_consistent(0, merkle.EMPTY, 5, tree.root(5), tree.consistency(0, 5))
    assert not merkle.is_consistent(0, tree.root(1), 5, tree.root(5), [])


def test_what_is_not_there_cannot_be_proven() -> None:
    tree = grown(events(3))
    for wrong in (
        lambda: tree.inclusion(3, 3),
        lambda: tree.inclusion(0, 4),
        lambda: tree.consistency(3, 2),
        lambda: tree.consistency(1, 4),
    ):
        with pytest.raises(ValueError, match="leaf|leaves|beginning"):
            wrong()


def test_no_proof_reads_more_of_the_log_than_the_tile_of_its_leaf() -> None:
    leaves = events(40 * TILE + 17)
    reads: list[tuple[int, int]] = []
    tree = grown(leaves, reads)
    path = tree.inclusion(5 * TILE + 3, len(leaves))
    assert reads == [(5 * TILE, 6 * TILE)]
    leaf, root = merkle.leaf_hash(leaves[5 * TILE + 3]), tree.root(len(leaves))
    assert merkle.is_included(leaf, 5 * TILE + 3, len(leaves), path, root)


def test_an_event_that_was_changed_since_does_not_get_into_a_proof() -> None:
    leaves = events(3 * TILE)
    tree = grown(leaves)
    leaves[TILE + 9] = b"forged"
    with pytest.raises(LogChanged, match="of events 257 to 512 one was changed"):
        tree.inclusion(TILE + 9, len(leaves))


def events(count: int) -> list[bytes]:
    return [b"event %d" % number for number in range(count)]


def flip(hash_: bytes) -> bytes:
    return bytes([hash_[0] ^ 1]) + hash_[1:]


def grown(data: Sequence[bytes], reads: list[tuple[int, int]] | None = None) -> Tree:
    def leaves(first: int, end: int) -> list[bytes]:
        if reads is not None:
            reads.append((first, end))
        return [merkle.leaf_hash(one) for one in data[first:end]]

    tree = Tree(leaves)
    for one in data:
        tree.append(merkle.leaf_hash(one))
    return tree


def frontier(data: Sequence[bytes]) -> merkle.Frontier:
    found = merkle.Frontier()
    for one in data:
        found.append(merkle.leaf_hash(one))
    return found
