"""Money to the nano-unit: what is rounded, how, and how often."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import postings
from billing.money import HOUR_US, NANOS, Rate, half_even, payable, per_hour, shown
from chassis.errors import Invalid

SECOND = 1_000_000
THIRTY_DAYS_US = 30 * 24 * HOUR_US
H100 = per_hour(Decimal("2.49"))

rates = st.builds(Rate, st.integers(1, 10**12), st.integers(1, 10**12))


def test_thirty_days_at_2_49_in_15_second_slices_cost_exactly_1792_80() -> None:
    assert total_in_slices(H100, THIRTY_DAYS_US, 15 * SECOND) == 1_792_800_000_000


@pytest.mark.parametrize(
    ("nanos", "said"),
    [
        (415_000_000, "0.415 USD"),
        (0, "0.00 USD"),
        (-1, "-0.000000001 USD"),
        (10**18, f"{10**9}.00 USD"),
    ],
)
def test_an_amount_is_shown_exactly(nanos: int, said: str) -> None:
    assert shown(nanos, "USD") == said


def test_a_seventh_of_a_gpu_is_as_exact() -> None:
    seventh = Rate(H100.price_nanos, 7 * H100.per_gpu_us)
    exact = Fraction(1_792_800_000_000, 7)
    assert total_in_slices(seventh, THIRTY_DAYS_US, 15 * SECOND) == round(exact)


@given(rates, st.lists(st.integers(0, 10**10), min_size=1, max_size=50))
def test_the_sum_does_not_depend_on_the_slicing(rate: Rate, lengths: list[int]) -> None:
    total, used = 0, 0
    for length in lengths:
        total += rate.amount(used + length) - rate.amount(used)
        used += length
    assert total == rate.amount(used)


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**20))
def test_a_half_goes_to_the_even_neighbour(numerator: int, denominator: int) -> None:
    assert half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@pytest.mark.parametrize(
    ("nanos", "currency", "paid"),
    [
        (4_999_999, "USD", 0),
        (5_000_000, "USD", 0),  # half a cent, to the even cent
        (15_000_000, "USD", 20_000_000),
        (1_499_999_999, "JPY", 1 * NANOS),
        (1_500_000_000, "JPY", 2 * NANOS),
    ],
)
def test_a_line_is_rounded_to_what_can_be_paid(nanos: int, currency: str, paid: int) -> None:
    assert payable(nanos, currency) == paid


def test_an_unknown_currency_cannot_be_rounded() -> None:
    with pytest.raises(Invalid):
        payable(1, "XAU")


@pytest.mark.parametrize("price", ["0", "-1", "0.0000000001"])
def test_a_price_that_is_no_number_of_nano_units_is_refused(price: str) -> None:
    with pytest.raises(Invalid):
        per_hour(Decimal(price))


def test_postings_that_do_not_balance_are_refused() -> None:
    with pytest.raises(postings.Unbalanced):
        postings.balanced(("asset:cash", 5), ("liability:prepaid:ten_1", -4))


@pytest.mark.parametrize("amount", [1.0, Decimal(1), True])
def test_money_is_integers_only(amount: int) -> None:
    with pytest.raises(Invalid):
        postings.balanced(("asset:cash", amount), ("asset:cash", -amount))


def test_a_posting_of_nothing_is_left_out() -> None:
    assert postings.top_up("ten_1", 5, owed=0) == [
        {"account": "asset:cash", "amount_nanos": 5},
        {"account": "liability:prepaid:ten_1", "amount_nanos": -5},
    ]


def total_in_slices(rate: Rate, whole_us: int, slice_us: int) -> int:
    ends = range(slice_us, whole_us + 1, slice_us)
    return sum(rate.amount(end) - rate.amount(end - slice_us) for end in ends)
