"""What the past would have cost: only prices differ, and nothing is written."""

from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from billing import what_if
from billing.domain import PRICE_BOOK, PriceBook
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import Price
from billing.rating import Tier
from billing.what_if import Difference, Metered
from tests.billing.market import Market
from tests.billing.test_pricing import CHEAPER
from tests.billing.world import ACME, H100, NOON, SECOND, slices

FOREVER = (0, 2**62)


def differences(world: Market, prices: list[Price], *period: int) -> list[Difference]:
    before = world.billing.state(), len(world.log.events)
    metered = Metered()
    metered.take(row for row in world.log.events if row.topic in what_if.TOPICS)
    found = what_if.compare(metered.meters.values(), prices, *(period or FOREVER))
    assert (world.billing.state(), len(world.log.events)) == before
    return found


def published(world: Market) -> list[Price]:
    return world.billing.get(PriceBook, PRICE_BOOK).history("H100")


def sold(rate: Rate = CHEAPER, **kind: Any) -> Price:
    return Price("H100", rate, "USD", kind.pop("effective_at", 0), **kind)


def test_two_leases_under_cheaper_prices() -> None:
    world = Market()
    for lease_id, gpus in (("lse_1", 1), ("lse_2", 2)):
        world.begin(lease_id, gpu_count=gpus)
    world.wait(HOUR_US)
    for lease_id in ("lse_1", "lse_2"):
        world.ended(HOUR_US, lease_id)
    (row,) = differences(world, [sold()])
    assert (row.tenant_id, row.currency, row.leases) == (ACME, "USD", 2)
    assert row.actual_nanos == 3 * H100.price_nanos
    assert row.other_nanos == 3 * CHEAPER.price_nanos
    assert row.unpriced_leases == 0


def test_only_the_time_in_the_period_counts() -> None:
    world = Market()
    world.begin()
    began = world.cost()["activated_at"]
    world.wait(3 * HOUR_US)
    world.ended(3 * HOUR_US)
    (row,) = differences(world, [sold()], began + HOUR_US, began + 2 * HOUR_US)
    assert (row.actual_nanos, row.other_nanos) == (H100.price_nanos, CHEAPER.price_nanos)
    assert differences(world, [sold()], 0, began) == []
    assert differences(world, [sold()], began + 4 * HOUR_US, began + 5 * HOUR_US) == []


def test_what_the_other_book_does_not_sell_counts_as_it_did_cost() -> None:
    world = Market()
    world.begin()
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    (row,) = differences(world, [sold(market="spot")])
    assert (row.actual_nanos, row.other_nanos) == (H100.price_nanos, H100.price_nanos)
    assert row.unpriced_leases == 1


def test_another_minimum_and_other_tiers_are_tried_too() -> None:
    world = Market()
    world.begin("lse_1")
    world.begin("lse_2")
    world.wait(2 * HOUR_US)
    world.ended(SECOND, "lse_1")
    world.ended(2 * HOUR_US, "lse_2")
    (row,) = differences(world, [sold(minimum_nanos=NANOS, tiers=(Tier(HOUR_US, Rate(7, 1)),))])
    assert row.other_nanos == NANOS + CHEAPER.price_nanos + 7 * HOUR_US


facts = st.fixed_dictionaries(
    {
        "share": st.sampled_from([Fraction(1), Fraction(1, 7), Fraction(3, 4)]),
        "market": st.sampled_from(["on_demand", "spot"]),
        "sla_tier": st.sampled_from(["", "gold"]),
        "gpu_count": st.integers(1, 3),
    }
)
lengths = st.integers(0, 3 * HOUR_US)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(facts, lengths), min_size=1, max_size=4), st.data())
def test_the_same_book_changes_nothing_and_periods_add_up(
    leases: list[tuple[dict[str, Any], int]], data: st.DataObject
) -> None:
    world = Market(funds=10_000 * NANOS)
    world.publish(market="spot", tiers=(Tier(HOUR_US, CHEAPER),))
    for number, (kind, _) in enumerate(leases):
        world.begin(f"lse_{number}", **kind)
    world.publish(CHEAPER, market="spot", effective_at=world.now + HOUR_US)
    world.wait(HOUR_US // 2)
    world.throttled(lease_id="lse_0")
    world.wait(4 * HOUR_US)
    for number, (_, length) in enumerate(leases):
        world.report(*slices(length + 1, lease_id=f"lse_{number}"))
        world.ended(length, f"lse_{number}")
    (whole,) = differences(world, published(world))
    assert whole.other_nanos == whole.actual_nanos
    assert whole.actual_nanos == -world.account("income:gpu:H100")
    cut = data.draw(st.integers(NOON, world.now))
    parts = differences(world, published(world), 0, cut)
    parts += differences(world, published(world), cut, 2**62)
    assert sum(part.actual_nanos for part in parts) == whole.actual_nanos
    assert sum(part.other_nanos for part in parts) == whole.other_nanos
