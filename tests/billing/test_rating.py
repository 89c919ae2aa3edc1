"""What time costs: tiers, shares and reduced time, however it is cut."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import rating, shares
from billing.money import HOUR_US, Rate
from billing.policy import Price, Sku, price_of, schedule
from billing.rating import GRADUATED, VOLUME, Segment, Tariff, Tier, Window
from billing.shares import Claim
from chassis.errors import Invalid
from tests.billing.world import H100

CHEAPER = Rate(1_990_000_000, HOUR_US)
TIERED = Tariff((Tier(0, H100), Tier(2 * HOUR_US, CHEAPER)))
BY_VOLUME = Tariff(TIERED.tiers, VOLUME)

rates = st.builds(Rate, st.integers(1, 10**11), st.integers(1, 7 * HOUR_US))
starts = st.sets(st.integers(1, 10 * HOUR_US), max_size=3).map(sorted)


@st.composite
def tariffs(draw: st.DrawFn) -> Tariff:
    tiers = [Tier(start, draw(rates)) for start in (0, *draw(starts))]
    return Tariff(tuple(tiers), draw(st.sampled_from([GRADUATED, VOLUME])))


@st.composite
def segmented(draw: st.DrawFn) -> list[Segment]:
    return [
        Segment(start, number, draw(tariffs())) for number, start in enumerate((0, *draw(starts)))
    ]


@st.composite
def windows(draw: st.DrawFn) -> list[Window]:
    edges = draw(st.lists(st.integers(0, 10 * HOUR_US), max_size=6))
    factors = st.fractions(0, 1, max_denominator=10)
    return [Window(min(pair), max(pair), draw(factors)) for pair in pairwise(edges)]


def cost(segments: list[Segment], reduced: list[Window], gpus: int, until_us: int) -> int:
    return sum(rating.amounts(segments, reduced, gpus, until_us))


@given(
    segmented(), windows(), st.integers(1, 9), st.lists(st.integers(0, 12 * HOUR_US), min_size=1)
)
def test_the_sum_of_slices_does_not_depend_on_the_slicing(
    segments: list[Segment], reduced: list[Window], gpus: int, ends: list[int]
) -> None:
    """Also when it goes back and forth, as corrections do."""
    stops = [0, *ends]
    slices = [
        cost(segments, reduced, gpus, until) - cost(segments, reduced, gpus, since)
        for since, until in pairwise(stops)
    ]
    assert sum(slices) == cost(segments, reduced, gpus, ends[-1])


@given(segmented(), windows(), st.integers(1, 9), st.integers(0, 12 * HOUR_US))
def test_the_cost_is_the_integral_rounded_once_for_each_price(
    segments: list[Segment], reduced: list[Window], gpus: int, until_us: int
) -> None:
    ends = [segment.from_us for segment in segments[1:]] + [until_us]
    expected = 0
    for segment, end in zip(segments, ends, strict=True):
        length = min(end, until_us) - segment.from_us
        if length > 0:
            expected += round(integral(segment, length, reduced, gpus))
    assert cost(segments, reduced, gpus, until_us) == expected


def integral(segment: Segment, length: int, reduced: list[Window], gpus: int) -> Fraction:
    """By small steps between everything that can change the rate, as a check of its own kind."""
    tiers = segment.tariff.tiers
    edges = {Fraction(0), Fraction(length)}
    edges |= {Fraction(one - segment.from_us) for w in reduced for one in (w.from_us, w.until_us)}
    edges |= {Fraction(tier.from_gpu_us, gpus) for tier in tiers}
    steps = sorted(edge for edge in edges if 0 <= edge <= length)
    total = Fraction(0)
    for since, until in pairwise(steps):
        reading = gpus * length if segment.tariff.mode == VOLUME else gpus * since
        rate = [tier.rate for tier in tiers if tier.from_gpu_us <= reading][-1]
        at = since + segment.from_us
        factors = [w.factor for w in reduced if w.from_us <= at < w.until_us]
        price = Fraction(rate.price_nanos, rate.per_gpu_us)
        total += min([Fraction(1), *factors]) * price * gpus * (until - since)
    return total


def test_tiers_price_their_own_part_or_everything() -> None:
    three_hours = [Segment(0, 1, TIERED)], [Segment(0, 1, BY_VOLUME)]
    graduated, by_volume = (cost(one, [], 1, 3 * HOUR_US) for one in three_hours)
    assert graduated == 2 * H100.price_nanos + CHEAPER.price_nanos
    assert by_volume == 3 * CHEAPER.price_nanos


def test_a_seventh_of_thirty_days_is_exact() -> None:
    seventh = Price("H100", H100, "USD", 0).of_share(Fraction(1, 7))
    month = 30 * 24 * HOUR_US
    assert 7 * seventh.rate.price_nanos * HOUR_US == H100.price_nanos * seventh.rate.per_gpu_us
    assert seventh.rate.amount(month) == round(Fraction(1_792_800_000_000, 7))
    assert seventh.rate.amount(7 * month) == 1_792_800_000_000


@pytest.mark.parametrize(
    ("tariff", "code"),
    [
        (Tariff((Tier(1, H100),)), "TIERS"),
        (Tariff((Tier(0, H100), Tier(0, CHEAPER))), "TIERS"),
        (Tariff((Tier(0, H100), Tier(9, CHEAPER), Tier(5, H100))), "TIERS"),
        (Tariff((Tier(0, H100), Tier(9, Rate(-1, HOUR_US)))), "PRICE"),
        (Tariff((Tier(0, H100),), "package"), "MODE"),
    ],
)
def test_tiers_with_a_gap_or_without_a_price_are_refused(tariff: Tariff, code: str) -> None:
    with pytest.raises(Invalid) as refusal:
        rating.check(tariff)
    assert refusal.value.code == code


def test_every_begun_unit_counts_when_time_is_charged_by_units() -> None:
    second = 1_000_000
    charged = [rating.charged_us(us, second) for us in (0, 1, second, second + 1)]
    assert charged == [0, second, second, 2 * second]


def sold(rate: Rate, effective_at: int, version: int, **kind: str) -> Price:
    return Price("H100", rate, "USD", effective_at, version, **kind)


def test_the_most_special_price_of_a_sku_holds() -> None:
    prices = [
        sold(H100, 0, 1),
        sold(CHEAPER, 0, 2, region="eu"),
        sold(Rate(5, 1), 0, 3, form="1g.10gb"),
        sold(Rate(7, 1), 0, 4, market="spot"),
    ]
    seventh = Fraction(1, 7)

    def version(*sku: object, **kind: object) -> int | None:
        found = price_of(prices, Sku("H100", *sku, **kind), 9)  # type: ignore[arg-type]
        return found.version if found else None

    assert version() == 1
    assert version(region="eu") == 2
    assert version(region="us") == 1
    assert version("1g.10gb", seventh, "eu") == 3
    assert version("2g.20gb", Fraction(2, 7), "eu") == 2
    assert version(market="spot") == 4
    assert version(market="reserved") is None


def test_a_form_with_its_own_price_is_not_divided_again() -> None:
    prices = [sold(H100, 0, 1), sold(Rate(5, 1), 0, 2, form="1g.10gb")]
    own = price_of(prices, Sku("H100", "1g.10gb", Fraction(1, 7)), 9)
    divided = price_of(prices, Sku("H100", "time-slice", Fraction(1, 7)), 9)
    assert own is not None
    assert own.rate == Rate(5, 1)
    assert divided is not None
    assert divided.rate == Rate(H100.price_nanos, 7 * HOUR_US)


def test_a_spot_lease_passes_through_the_prices_of_its_market() -> None:
    spot = [sold(Rate(n, 1), at, n, market="spot") for n, at in ((1, 0), (2, 10), (3, 20))]
    other = sold(H100, 15, 4)
    passed = schedule([*spot, other], Sku("H100", market="spot"), 5, 20)
    assert [(edge, price.version) for edge, price in passed] == [(10, 2), (20, 3)]


claims = st.builds(
    lambda since, length, parts: Claim("", since, since + length, Fraction(*sorted(parts))),
    st.integers(0, 50),
    st.integers(1, 30),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
)


@given(st.lists(claims, max_size=6), st.integers(0, 60))
def test_the_peak_is_the_most_claimed_at_any_instant(held: list[Claim], since: int) -> None:
    by_instant = [sum(one.share for one in held if one.holds(at)) for at in range(since, 100)]
    assert shares.peak(held, since) == max(by_instant)


@pytest.mark.parametrize(("n", "d"), [(0, 1), (2, 1), (-1, 7), (1, 1_001), (1, 0)])
def test_what_is_no_share_of_a_gpu_is_refused(n: int, d: int) -> None:
    with pytest.raises(Invalid):
        shares.share(n, d)
