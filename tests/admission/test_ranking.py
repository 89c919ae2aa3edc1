"""Ranks, against a sorted list."""

from bisect import bisect_left, bisect_right, insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission import ranking
from admission.ranking import Ranking


@given(
    st.lists(st.integers(0, 200), unique=True),
    st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=120),
)
def test_ranks_are_those_of_a_sorted_list(
    start: list[int], changes: list[tuple[bool, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_BLOCK_MAX", 4)
        ranked, plain = Ranking(start), sorted(start)
        for adding, key in changes:
            if adding and key not in plain:
                ranked.add(key)
                insort(plain, key)
            elif not adding and key in plain:
                ranked.remove(key)
                plain.remove(key)
        assert list(ranked) == plain
        assert len(ranked) == len(plain)
        assert [ranked.rank(key) for key in plain] == list(range(len(plain)))
        assert ranked.first() == (plain[0] if plain else None)
        for key in range(-1, 202):
            behind = plain[bisect_right(plain, key) :]
            assert ranked.after(key) == (behind[0] if behind else None)


@given(st.lists(st.integers(0, 30), unique=True), st.integers(0, 30))
def test_a_key_that_is_not_in_has_no_rank(keys: list[int], key: int) -> None:
    ranked = Ranking(keys)
    if key in keys:
        assert ranked.rank(key) == bisect_left(sorted(keys), key)
        return
    with pytest.raises(KeyError):
        ranked.rank(key)
    with pytest.raises(KeyError):
        ranked.remove(key)


def test_a_long_line_is_served_from_the_front_and_joined_at_the_end() -> None:
    ranked = Ranking(range(10_000))
    for joined in range(10_000, 30_000):
        first = ranked.first()
        assert first == joined - 10_000
        ranked.remove(first)
        ranked.add(joined)
    assert [ranked.rank(key) for key in (20_000, 25_000, 29_999)] == [0, 5_000, 9_999]
