"""The rules: one row for each, in the order in which they apply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import policy
from billing.money import NANOS, Rate
from billing.policy import Feed, Known, Piece, Price, Verdict
from tests.billing.world import H100, NODE, SECOND, TOKEN, price, slice_

RUNNING = Known(NODE, TOKEN, seq=3, reported_us=30, lasted_us=100, ended=False)
ENDED = Known(NODE, TOKEN, seq=3, reported_us=30, lasted_us=100, ended=True)
LATE = 100 + policy.AHEAD_US_MAX
NEVER = 100 + policy.AHEAD_RETRY_US_MAX


@pytest.mark.parametrize(
    ("known", "node_id", "token", "reported", "expected"),
    [
        (RUNNING, "nod_2", 0, (9, 5, 1), Verdict.FOREIGN),  # breaks every rule: the first counts
        (RUNNING, NODE, 0, (9, 5, 1), Verdict.FENCED),
        (RUNNING, NODE, TOKEN, (3, 20, 30), Verdict.KNOWN),
        (RUNNING, NODE, TOKEN, (1, 0, 10), Verdict.KNOWN),
        (RUNNING, NODE, TOKEN, (3, 20, 31), Verdict.CONTRADICTION),
        (RUNNING, NODE, TOKEN, (0, 0, 10), Verdict.CONTRADICTION),
        (RUNNING, NODE, TOKEN, (-1, 0, 10), Verdict.CONTRADICTION),
        (RUNNING, NODE, TOKEN, (5, 50, 40), Verdict.RETRY),
        (RUNNING, NODE, TOKEN, (4, 50, 40), Verdict.INTERVAL),  # a negative slice
        (RUNNING, NODE, TOKEN, (4, 30, 30), Verdict.INTERVAL),
        (RUNNING, NODE, TOKEN, (4, 29, 40), Verdict.INTERVAL),  # overlaps what it said before
        (RUNNING, NODE, TOKEN, (4, -1, 40), Verdict.INTERVAL),
        (RUNNING, NODE, TOKEN, (4, 30, NEVER + 1), Verdict.AHEAD),
        (RUNNING, NODE, TOKEN, (4, 30, NEVER), Verdict.RETRY),
        (RUNNING, NODE, TOKEN, (4, 30, LATE + 1), Verdict.RETRY),
        (RUNNING, NODE, TOKEN, (4, 30, LATE), Verdict.RECORD),
        (RUNNING, NODE, TOKEN, (4, 40, 50), Verdict.RECORD),  # a gap in time is not its fault
        (ENDED, NODE, TOKEN, (5, 50, 40), Verdict.INTERVAL),
        (ENDED, NODE, TOKEN, (4, 30, 101), Verdict.BEYOND_END),
        (ENDED, NODE, TOKEN, (6, 60, 100), Verdict.RECORD),  # nobody will fill the hole any more
        (ENDED, NODE, TOKEN, (2, 10, 20), Verdict.KNOWN),
    ],
)
def test_a_slice_gets_the_verdict_of_the_first_rule_that_applies(
    known: Known, node_id: str, token: int, reported: tuple[int, int, int], expected: Verdict
) -> None:
    assert policy.verdict(slice_(*reported, token=token), known, node_id) is expected


@pytest.mark.parametrize(
    ("billed_us", "expected"),
    [
        (30, [Piece(30, 50, True, False)]),
        (20, [Piece(20, 30, False, False), Piece(30, 50, True, False)]),
        (40, [Piece(30, 40, True, True), Piece(40, 50, True, False)]),
        (60, [Piece(30, 50, True, True)]),
    ],
)
def test_a_report_is_cut_where_billing_stands(billed_us: int, expected: list[Piece]) -> None:
    assert list(policy.pieces(billed_us, 30, 50)) == expected


def test_a_report_that_begins_after_the_end_has_no_pieces() -> None:
    assert list(policy.pieces(10, 30, 20)) == []


@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 99))
def test_pieces_confirm_the_report_and_bill_up_to_its_end(
    billed_us: int, from_us: int, length: int
) -> None:
    until_us = from_us + length
    cut = list(policy.pieces(billed_us, from_us, until_us))
    assert sum(p.until_us - p.from_us for p in cut if p.confirmed) == length
    new = [p for p in cut if not p.billed]
    assert sum(p.until_us - p.from_us for p in new) == max(0, until_us - billed_us)


@pytest.mark.parametrize(
    ("held", "needed", "available", "expected"),
    [
        (100, 50, 0, Feed()),  # half of the target is left
        (100, 51, 200, Feed(51)),  # filled up again
        (100, 51, 1, Feed(1)),  # half of it with the last money
        (100, 51, 0, Feed(exhausted=True)),  # 49 are left to stop with
        (100, 120, 50, Feed(50, exhausted=True)),
        (100, 120, 10, Feed(20, 10, exhausted=True)),  # 10 that nothing covers
    ],
)
def test_a_hold_is_fed_before_it_is_too_small_to_stop_with(
    held: int, needed: int, available: int, expected: Feed
) -> None:
    assert policy.feed(held=held, needed=needed, target=100, available=available) == expected


@given(*[st.integers(0, 1000)] * 4)
def test_feeding_pays_and_takes_no_more_than_there_is(
    held: int, needed: int, target: int, available: int
) -> None:
    feed = policy.feed(held=held, needed=needed, target=target, available=available)
    left = held + feed.delta - needed
    assert left >= 0
    assert 0 <= feed.delta - feed.on_credit <= available
    assert feed.on_credit == 0 or left == 0
    assert feed.exhausted == (feed.on_credit > 0 or 2 * left < target)


@pytest.mark.parametrize(
    ("seconds_max", "used_seconds", "held_seconds"),
    [(0, 0, 600), (0, 10_000, 600), (60, 0, 60), (60, 40, 20), (60, 70, 0), (7200, 0, 600)],
)
def test_a_hold_covers_the_window_or_what_is_left_of_the_lease(
    seconds_max: int, used_seconds: int, held_seconds: int
) -> None:
    size = policy.hold_size(
        H100, 8, seconds_max, window_us=600 * SECOND, used_us=used_seconds * SECOND
    )
    assert size == H100.amount(8 * held_seconds * SECOND)


def test_the_price_in_force_is_the_last_that_has_begun() -> None:
    early, late, corrected = (
        Price("H100", Rate(nanos * NANOS, 1), "USD", begins, version)
        for nanos, begins, version in ((1, 10, 1), (2, 20, 2), (3, 20, 3))
    )
    prices = [late, corrected, early]
    found = [policy.price_in_force(prices, at) for at in (9, 10, 19, 20, 99)]
    assert found == [None, early, early, corrected, corrected]


def test_a_price_without_history_is_no_price() -> None:
    assert policy.price_in_force([], 10) is None
    assert policy.price_in_force([price(effective_at=11)], 10) is None
