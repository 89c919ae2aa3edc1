"""The fit index against a plain search, and its cost as the fleet grows."""

import sys
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.fit import Index, Misfit, Spot
from placement.policy import HoldRefusal


@pytest.mark.parametrize(
    ("free", "count", "spot"),
    [
        ({"a": 8, "b": 3, "c": 2}, 2, Spot("c", (0, 1))),  # the smallest that suffices
        ({"a": 8, "b": 3, "c": 2}, 3, Spot("b", (0, 1, 2))),
        ({"c": 4, "b": 4}, 1, Spot("b", (0,))),  # of equal ones the first by name
    ],
)
def test_the_best_fit_leaves_the_least_behind(free: dict[str, int], count: int, spot: Spot) -> None:
    assert index_of(free).best("H100", count) == spot


def test_a_refusal_gives_its_numbers() -> None:
    index = index_of({"a": 8, "b": 4})
    assert index.best("H100", 9) == Misfit(
        HoldRefusal.NEVER_FITS, "9 H100 wanted; the largest node has 8"
    )
    assert index.best("A100", 1) == Misfit(
        HoldRefusal.NEVER_FITS, "1 A100 wanted; the largest node has 0"
    )
    index.take("a", (0, 1))
    assert index.best("H100", 8) == Misfit(
        HoldRefusal.CAPACITY, "8 H100 wanted on one node; 10 free in all, at most 6 on one node"
    )


def test_models_on_one_node_are_counted_apart() -> None:
    index = Index()
    index.put("mixed", {0: "H100", 1: "A100", 2: "H100"}, ())
    assert index.best("H100", 2) == Spot("mixed", (0, 2))
    assert index.best("A100", 1) == Spot("mixed", (1,))


def test_an_absent_node_is_not_offered_but_counts_as_a_place_it_could_fit() -> None:
    index = index_of({"a": 8, "b": 4})
    index.set_away("a", True)
    found = index.best("H100", 8)
    assert isinstance(found, Misfit)
    assert found.refusal is HoldRefusal.CAPACITY
    assert "4 free in all" in found.detail
    index.set_away("a", False)
    assert index.best("H100", 8) == Spot("a", tuple(range(8)))


def test_what_is_taken_on_trial_is_given_back() -> None:
    index = index_of({"a": 2})
    with index.tentative() as trial:
        assert [trial.best("H100", 1) for _ in range(2)] == [Spot("a", (0,)), Spot("a", (1,))]
        assert isinstance(trial.best("H100", 1), Misfit)
    assert index.best("H100", 2) == Spot("a", (0, 1))


# Each step: a node, and what to do with it.
STEPS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["take", "give", "away", "back", "join", "leave"]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 6))
def test_the_index_finds_what_a_search_through_all_nodes_finds(
    steps: list[tuple[str, str, int]], count: int
) -> None:
    index, away = Index(), set[str]()
    sizes: dict[str, int] = {}
    free: dict[str, set[int]] = {}
    for node_id, step, number in steps:
        if step == "join":
            index.put(node_id, dict.fromkeys(range(number + 1), "H100"), ())
            sizes[node_id], free[node_id] = number + 1, set(range(number + 1))
        elif step == "leave":
            index.remove(node_id)
            free.pop(node_id, None)
        elif step in ("away", "back"):
            index.set_away(node_id, step == "away")
            (away.add if step == "away" else away.discard)(node_id)
        elif node_id in free and number < sizes[node_id]:
            (index.take if step == "take" else index.give)(node_id, [number])
            (free[node_id].discard if step == "take" else free[node_id].add)(number)
    found = index.best("H100", count)
    assert (found if isinstance(found, Spot) else None) == searched(free, away, count)


def test_the_cost_does_not_grow_with_the_fleet() -> None:
    """Counted in steps of the interpreter, so that a busy machine does not matter."""
    small, large = (steps_of_a_placement(nodes) for nodes in (100, 10_000))
    assert large <= small * 1.5


def index_of(free: dict[str, int]) -> Index:
    index = Index()
    for node_id, count in free.items():
        index.put(node_id, dict.fromkeys(range(count), "H100"), ())
    return index


def searched(free: dict[str, set[int]], away: Iterable[str], count: int) -> Spot | None:
    fitting = [
        (len(slots), node_id)
        for node_id, slots in free.items()
        if len(slots) >= count and node_id not in away
    ]
    if not fitting:
        return None
    _, node_id = min(fitting)
    return Spot(node_id, tuple(sorted(free[node_id])[:count]))


def steps_of_a_placement(nodes: int) -> int:
    index = index_of({f"n{number:05}": 8 for number in range(nodes)})
    lines = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal lines
        lines += 1
        return count

    sys.settrace(count)
    try:
        for _ in range(50):
            found = index.best("H100", 3)
            assert isinstance(found, Spot)
            index.take(found.node_id, found.slots)
    finally:
        sys.settrace(None)
    return lines
