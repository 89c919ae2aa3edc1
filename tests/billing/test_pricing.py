"""Prices of SKUs, shares of GPUs, spot prices, minimum charges, reduced time: as billing acts."""

from dataclasses import replace
from fractions import Fraction

import pytest

from billing.domain.meter import Activation
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import Price
from billing.rating import Tier
from chassis.errors import ServiceError
from tests.billing.market import Market
from tests.billing.world import H100, LEASE, SECOND, activation, price, slice_, slices

CHEAPER = Rate(1_990_000_000, HOUR_US)
SEVENTH = Fraction(1, 7)


def test_a_seventh_of_a_gpu_costs_a_seventh() -> None:
    world = Market()
    for number in range(7):
        world.begin(f"lse_{number}", form="1g.10gb", share=SEVENTH, slots=(0,))
    world.wait(7 * HOUR_US)
    for number in range(7):
        world.ended(7 * HOUR_US, f"lse_{number}")
        assert world.cost(f"lse_{number}")["amount_nanos"] == H100.price_nanos
    world.checked()


def test_a_share_beyond_the_whole_gpu_is_refused_and_the_event_waits() -> None:
    world = Market()
    for number in range(7):
        world.begin(f"lse_{number}", share=SEVENTH, slots=(0, 1), gpu_count=2)
    before = len(world.log.events)
    with pytest.raises(ServiceError) as refusal:
        world.begin("lse_7", share=SEVENTH, slots=(2, 1), gpu_count=2)
    assert refusal.value.code == "SHARES_OVER_ONE"
    assert len(world.log.events) == before
    world.begin("lse_8", share=SEVENTH, slots=(2, 3), gpu_count=2)
    world.wait(SECOND)
    world.ended(SECOND, "lse_3")
    world.begin("lse_7", share=SEVENTH, slots=(2, 1), gpu_count=2)
    world.checked()


def test_a_claim_that_comes_late_is_held_against_its_own_time() -> None:
    world = Market()
    world.begin("lse_1", slots=(0,))
    world.wait(HOUR_US)
    world.ended(HOUR_US, "lse_1")
    began = world.cost("lse_1")["activated_at"]
    with pytest.raises(ServiceError):
        world.begin("lse_2", slots=(0,), activated_at=began + HOUR_US - 1)
    world.begin("lse_2", slots=(0,), activated_at=began + HOUR_US)


def test_tiers_count_the_time_of_the_lease() -> None:
    world = Market()
    world.publish(tiers=(Tier(2 * HOUR_US, CHEAPER),))
    world.begin(gpu_count=2)
    world.wait(3 * HOUR_US)
    world.report(*slices(HOUR_US // 3, HOUR_US, HOUR_US + 7, 3 * HOUR_US))
    world.ended(3 * HOUR_US)
    assert world.cost()["amount_nanos"] == 2 * H100.price_nanos + 4 * CHEAPER.price_nanos
    world.checked()


def test_the_version_of_its_price_is_kept_in_the_meter() -> None:
    world = Market()
    second = world.publish(region="eu")
    world.begin("lse_1", region="eu")
    world.begin("lse_2")
    versions = [world.meter(lease).segments[0]["price_version"] for lease in ("lse_1", "lse_2")]
    assert versions == [second.version, 1]


def test_a_spot_lease_is_repriced_where_the_price_changed() -> None:
    world = Market()
    world.publish(market="spot")
    world.begin(market="spot")
    began = world.cost()["activated_at"]
    world.publish(CHEAPER, market="spot", effective_at=began + HOUR_US)
    world.publish(Rate(1, 1), effective_at=began + HOUR_US)
    world.wait(3 * HOUR_US)
    world.report(*slices(HOUR_US // 2, 2 * HOUR_US, 3 * HOUR_US))
    world.ended(3 * HOUR_US)
    assert world.cost()["amount_nanos"] == H100.price_nanos + 2 * CHEAPER.price_nanos
    assert world.topics().count("meter.repriced") == 1
    world.checked()


def test_time_billed_ahead_of_a_new_spot_price_is_put_right() -> None:
    world = Market()
    world.publish(market="spot")
    world.begin(market="spot")
    world.wait(10 * SECOND)
    world.report(*slices(11 * SECOND))
    dearer = Rate(10 * H100.price_nanos, HOUR_US)
    world.publish(dearer, market="spot", effective_at=world.now + SECOND // 2)
    began = world.cost()["activated_at"]
    change = world.billing.prices.published[-1]["effective_at"] - began
    world.wait(9 * SECOND)
    world.ended(19 * SECOND)
    assert world.cost()["amount_nanos"] == H100.amount(change) + dearer.amount(19 * SECOND - change)
    world.checked()


def test_a_lease_on_demand_keeps_its_price_when_others_change() -> None:
    world = Market()
    world.begin()
    world.publish(CHEAPER)
    world.publish(Rate(1, 1), market="spot")
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    assert world.cost()["amount_nanos"] == H100.price_nanos


def test_the_minimum_is_charged_on_its_own() -> None:
    world = Market()
    world.publish(minimum_nanos=NANOS)
    world.begin("lse_1")
    world.begin("lse_2")
    world.wait(HOUR_US)
    world.ended(SECOND, "lse_1")
    world.ended(HOUR_US, "lse_2")
    meter = world.meter("lse_1")
    assert meter.amount_nanos == H100.amount(SECOND)
    assert meter.topped_up_nanos == NANOS - H100.amount(SECOND)
    assert meter.billed_us == SECOND, "the quantity is what it was"
    assert world.cost("lse_1")["amount_nanos"] == NANOS
    assert world.topics().count("meter.minimum_charged") == 1
    assert world.balance()["held"] == 0
    world.checked()


def test_a_minimum_that_nothing_covers_is_owed() -> None:
    world = Market(funds=0)
    world.publish(minimum_nanos=NANOS)
    world.begin()
    world.ended(0)
    assert world.balance()["owed"] == NANOS
    world.checked()


def test_begun_seconds_count_when_the_price_says_so() -> None:
    world = Market()
    world.publish(granularity_us=SECOND)
    world.begin()
    world.wait(HOUR_US)
    world.report(*slices(SECOND // 2, SECOND * 3 // 2, SECOND * 7 // 3))
    world.ended(SECOND * 7 // 3)
    assert world.cost()["amount_nanos"] == H100.amount(3 * SECOND)
    world.checked()


def test_throttled_time_costs_what_the_sla_tier_says() -> None:
    world = Market()
    world.begin(sla_tier="silver")
    began = world.cost()["activated_at"]
    world.wait(HOUR_US)
    from_us = world.now - began
    world.throttled()
    world.throttled()
    world.wait(HOUR_US)
    until_us = world.now - began
    world.throttled("")
    world.wait(HOUR_US)
    lasted = world.now - began
    world.ended(lasted)
    full, half = lasted - (until_us - from_us), until_us - from_us
    exact = Fraction(H100.price_nanos * full, HOUR_US) + Fraction(
        H100.price_nanos * half, 2 * HOUR_US
    )
    assert world.cost()["amount_nanos"] == round(exact)
    assert world.topics().count("meter.reduced") == 2
    world.checked()


def test_throttled_time_that_was_billed_is_given_back() -> None:
    world = Market()
    world.begin(sla_tier="gold")
    world.wait(HOUR_US)
    world.report(*slices(HOUR_US))
    began = world.cost()["activated_at"]
    world.tell(lambda at: world.billing.constrain(LEASE, "throttle", began, at=at))
    assert world.cost()["amount_nanos"] == round(Fraction(H100.price_nanos, 4))
    world.checked()


def test_without_an_sla_tier_throttled_time_costs_all_of_it() -> None:
    world = Market()
    world.begin()
    world.throttled()
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    assert world.cost()["amount_nanos"] == H100.price_nanos


def test_the_last_minute_of_a_preempted_lease_is_free() -> None:
    world = Market()
    world.begin("lse_1")
    world.begin("lse_2")
    world.wait(HOUR_US)
    world.report(slice_(1, 0, HOUR_US, lease_id="lse_1"))
    world.preempted(HOUR_US, "lse_1")
    world.preempted(SECOND, "lse_2")
    assert world.cost("lse_1")["amount_nanos"] == H100.amount(HOUR_US - 60 * SECOND)
    assert world.cost("lse_2")["amount_nanos"] == 0
    world.checked()


@pytest.mark.parametrize(
    ("offered", "code"),
    [
        (replace(price(), effective_at=1), "PAST_EFFECTIVE"),
        (replace(price(), currency="EUR"), "CURRENCY_MISMATCH"),
        (replace(price(), rate=Rate(-1, HOUR_US)), "PRICE"),
        (replace(price(), rate=Rate(2.49, HOUR_US)), "MONEY"),  # type: ignore[arg-type]
        (replace(price(), tiers=(Tier(0, CHEAPER),)), "TIERS"),
        (replace(price(), tiers=(Tier(5, Rate(-1, 1)),)), "PRICE"),
        (replace(price(), tiers=(Tier(5, Rate(10**15, HOUR_US)),)), "PRICE"),
        (replace(price(), market="grey"), "MARKET"),
        (replace(price(), mode="package"), "MODE"),
        (replace(price(), minimum_nanos=-1), "MINIMUM"),
        (replace(price(), minimum_nanos=0.5), "MONEY"),  # type: ignore[arg-type]
        (replace(price(), granularity_us=0), "GRANULARITY"),
    ],
)
def test_a_price_that_makes_no_sense_is_refused(offered: Price, code: str) -> None:
    world = Market()
    before = len(world.log.events)
    with pytest.raises(ServiceError) as refusal:
        world.tell(lambda at: world.billing.publish_price(offered, at=at))
    assert refusal.value.code == code
    assert len(world.log.events) == before


def test_a_share_is_held_at_its_price() -> None:
    world = Market()
    facts: Activation = activation(activated_at=world.now)
    world.begin(share=SEVENTH)
    assert facts.share == 1
    held = Rate(H100.price_nanos, 7 * HOUR_US).amount(world.billing.hold_window_us)
    assert world.balance()["held"] == held
