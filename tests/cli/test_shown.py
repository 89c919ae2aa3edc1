"""How values read."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from leasehold.cli import shown
from leasehold.cli.explain import BAR_WIDTH, span
from tests.cli.shapes import AT, HOUR_US, SECOND

NANOS = st.integers(-(10**24), 10**24)


@given(NANOS)
def test_money_survives_being_written_and_read(nanos: int) -> None:
    assert shown.nanos(shown.money(nanos)) == nanos


@given(NANOS)
def test_money_reads_as_its_exact_value_with_two_places_at_least(nanos: int) -> None:
    whole, _, places = shown.money(nanos).removeprefix("-").partition(".")
    assert 2 <= len(places) <= 9
    assert int(whole + places.ljust(9, "0")) == abs(nanos)
    assert len(places) == 2 or places[-1] != "0"


@pytest.mark.parametrize("text", ["", "1.", ".5", "1e3", "1.0000000001", "1,5", " 1", "NaN", "٣"])
def test_what_is_not_exactly_money_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        shown.nanos(text)


@given(st.integers(-(10**18), 10**18))
def test_seconds_are_exact(micros: int) -> None:
    sign = -1 if shown.seconds(micros).startswith("-") else 1
    whole, _, places = shown.seconds(micros).removeprefix("-").partition(".")
    assert sign * int(whole + places.ljust(6, "0")) == micros


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (-5, "0.0 s"),
        (12_345_678, "12.3 s"),
        (59_999_999, "59.9 s"),
        (189 * SECOND, "3 m 09 s"),
        (2 * HOUR_US + 61 * SECOND, "2 h 01 m"),
    ],
)
def test_durations_read_at_a_glance(micros: int, text: str) -> None:
    assert shown.duration(micros) == text


def test_times_say_that_they_are_utc() -> None:
    assert shown.moment(AT) == "2026-11-18 11:01:06Z"
    assert shown.moment(0) == shown.NOTHING
    assert shown.moment_of_today(AT, AT + SECOND) == "11:01:06Z"
    assert shown.moment_of_today(AT, AT + 24 * HOUR_US) == "2026-11-18 11:01:06Z"


def test_prices_name_their_unit() -> None:
    assert shown.price("2490000000", HOUR_US, "USD") == "2.49 USD / GPU-h"
    assert shown.price("1", 1_500_000, "USD") == "0.000000001 USD / 1.5 GPU-s"


def test_foreign_text_cannot_move_the_cursor() -> None:
    assert shown.plain("a\x1b[2Jb\nc\x9b") == "a\\x1b[2Jb\\nc\\x9b"


LEASE = "lse_1k0hbpr5h48jz06m1wrag_1"


@pytest.mark.parametrize("prose", [True, False])
@pytest.mark.parametrize("width", range(20, 140, 3))
def test_nothing_is_cut_or_broken_however_narrow_the_terminal(width: int, prose: bool) -> None:
    words = f"expires_at=+60.006 s, node_id={LEASE}, slots=[0, 1], {'so ' * 20}end"
    rows = [[LEASE, "0.014394322 USD", words], [LEASE, "1.00 USD", " "]]
    out = drawn(width, shown.table(["LEASE", ">AMOUNT", "WHY"], rows, prose=prose))
    assert out.count(LEASE) == 3
    assert out.count("0.014394322 USD") == 1
    assert out.split().count("so") == 20
    assert "end" in out.split()


def test_rows_that_do_not_fit_become_blocks() -> None:
    table = shown.table(["LEASE", ">AMOUNT", "NODE"], [[LEASE, "1.00 USD", None], [LEASE, 2, "n"]])
    assert drawn(80, table).splitlines()[1].split() == [LEASE, "1.00", "USD", "–"]
    assert drawn(40, table).splitlines() == [
        f"LEASE   {LEASE}",
        "AMOUNT  1.00 USD",
        "NODE    –",
        "",
        f"LEASE   {LEASE}",
        "AMOUNT  2",
        "NODE    n",
    ]


def test_an_empty_column_makes_room() -> None:
    table = shown.table(["LEASE", "CAUSE", ">AMOUNT"], [[LEASE, None, "1.00 USD"]])
    assert drawn(80, table).split() == ["LEASE", "CAUSE", "AMOUNT", LEASE, "–", "1.00", "USD"]
    assert drawn(40, table).split() == ["LEASE", "AMOUNT", LEASE, "1.00", "USD"]


def test_prose_that_does_not_fit_moves_below_its_row() -> None:
    rows = [["1", LEASE, "why it is so " * 8], ["2", LEASE, " "]]
    lines = drawn(70, shown.table([">#", "LEASE", "WHY"], rows, prose=True)).splitlines()
    assert [line[:9].rstrip() for line in lines] == [
        "#  LEASE",
        "1  lse_1k",
        "   why it",
        "   why it",
        "2  lse_1k",
    ]


def drawn(width: int, item: Any) -> str:
    """What a terminal of that width is sent, without the blanks at the ends of lines."""
    out = io.StringIO()
    Console(file=out, width=width).print(item, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 10**12))
def test_every_interval_has_a_place_in_the_bar(begin: int, length: int, rest: int) -> None:
    whole = begin + length + rest
    start, stop = span(begin, begin + length, whole)
    assert 0 <= start < stop <= BAR_WIDTH
