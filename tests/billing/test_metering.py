"""Leases into money: what is billed, by whom it is confirmed, and what is not believed."""

from dataclasses import replace

import pytest

from billing import policy
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import Verdict
from chassis.errors import Refused
from tests.billing.world import (
    ACME,
    H100,
    LEASE,
    SECOND,
    World,
    activation,
    hold,
    price,
    slice_,
    slices,
)

HOUR_COST = 2_490_000_000


def test_a_lease_from_hold_to_invoice() -> None:
    world = World(funds=10 * NANOS)
    world.running(gpu_count=2)
    world.wait(HOUR_US)
    world.report(*slices(HOUR_US // 2, HOUR_US))
    world.ended(HOUR_US)
    assert world.cost()["amount_nanos"] == 2 * HOUR_COST
    assert world.cost()["confirmed_us"] == HOUR_US
    assert world.balance() == {
        "currency": "USD", "available": 10 * NANOS - 2 * HOUR_COST, "held": 0, "owed": 0
    }  # fmt: skip
    assert world.invoice()["total_nanos"] == 2 * HOUR_COST
    assert world.account("income:gpu:H100") == -2 * HOUR_COST


def test_thirty_days_in_15_second_slices_cost_exactly_1792_80() -> None:
    world, quarter = World(funds=2_000 * NANOS), 15 * SECOND
    world.running()
    count = 30 * 24 * 3600 // 15
    world.wait(count * quarter)
    for first in range(0, count, 1000):
        numbers = range(first, min(first + 1000, count))
        world.report(*(slice_(n + 1, n * quarter, (n + 1) * quarter) for n in numbers))
    world.ended(count * quarter)
    assert world.cost()["amount_nanos"] == 1_792_800_000_000
    assert world.balance()["available"] == 2_000 * NANOS - 1_792_800_000_000


def test_a_repeated_slice_is_billed_once() -> None:
    world = World()
    world.running()
    world.wait(10 * SECOND)
    reported = slices(5 * SECOND, 10 * SECOND)
    assert world.report(*reported, *reported) == [Verdict.RECORD] * 2 + [Verdict.KNOWN] * 2
    assert world.report(*reported) == [Verdict.KNOWN] * 2
    assert world.cost()["metered_us"] == 10 * SECOND
    assert world.topics().count("meter.slice_recorded") == 2


def test_a_slice_before_the_activation_is_to_be_sent_again() -> None:
    world = World()
    assert world.report(*slices(SECOND)) == [Verdict.RETRY]


def test_a_slice_out_of_order_is_to_be_sent_again() -> None:
    world = World()
    world.running()
    world.wait(10 * SECOND)
    first, second = slices(5 * SECOND, 10 * SECOND)
    assert world.report(second, first, second) == [Verdict.RETRY, Verdict.RECORD, Verdict.RECORD]


def test_another_nodes_slice_changes_nothing() -> None:
    world = World()
    world.running()
    world.wait(10 * SECOND)
    written = len(world.log.events)
    assert world.report(*slices(5 * SECOND), node_id="nod_2") == [Verdict.FOREIGN]
    assert len(world.log.events) == written


def test_a_slice_of_an_older_binding_is_disputed_once() -> None:
    world = World()
    world.running()
    world.wait(10 * SECOND)
    fenced = slice_(1, 0, 5 * SECOND, token=6)
    assert world.report(fenced, fenced) == [Verdict.FENCED] * 2
    assert world.topics().count("meter.disputed") == 1
    assert world.report(*slices(5 * SECOND)) == [Verdict.RECORD]


def test_after_a_dispute_the_node_goes_on_and_the_gap_is_billed_unconfirmed() -> None:
    world = World()
    world.running()
    world.wait(20 * SECOND)
    reports = (slice_(1, 0, -5), slice_(2, 5 * SECOND, 20 * SECOND))
    assert world.report(*reports) == [Verdict.INTERVAL, Verdict.RECORD]
    assert (world.cost()["metered_us"], world.cost()["confirmed_us"]) == (20 * SECOND, 15 * SECOND)


def test_time_that_has_not_passed_is_not_billed() -> None:
    world = World()
    world.running()
    world.wait(10 * SECOND)
    soon, never = slice_(1, 0, 60 * SECOND), slice_(1, 0, 10 * HOUR_US)
    assert world.report(soon) == [Verdict.RETRY]
    assert world.report(never) == [Verdict.AHEAD]
    assert world.cost()["amount_nanos"] == 0


def test_a_silent_node_is_billed_from_the_lease_and_confirms_later() -> None:
    world = World()
    world.running()
    world.wait(40 * SECOND)
    world.tick()
    billed = world.cost()["metered_us"]
    assert billed >= 40 * SECOND
    assert world.billing.costs.unconfirmed_us == billed
    assert world.report(*slices(30 * SECOND, billed)) == [Verdict.RECORD] * 2
    assert world.cost()["metered_us"] == world.cost()["confirmed_us"] == billed
    assert world.billing.costs.unconfirmed_us == 0


def test_a_report_half_billed_already_is_confirmed_and_continued() -> None:
    world = World()
    world.running()
    world.wait(40 * SECOND)
    world.tick()
    world.wait(20 * SECOND)
    assert world.report(*slices(50 * SECOND)) == [Verdict.RECORD]
    assert world.cost()["metered_us"] == world.cost()["confirmed_us"] == 50 * SECOND
    assert world.cost()["amount_nanos"] == H100.amount(50 * SECOND)


def test_a_tick_without_anything_due_writes_nothing() -> None:
    world = World()
    world.running()
    world.wait(29 * SECOND)
    written = len(world.log.events)
    world.tick()
    assert len(world.log.events) == written


def test_without_its_node_a_lease_is_billed_only_so_far_and_settled_at_its_end() -> None:
    world = World()
    world.running()
    for _ in range(100):
        world.wait(30 * SECOND)
        world.tick()
    assert world.cost()["metered_us"] == policy.UNCONFIRMED_US_MAX
    assert world.billing.silence.last_at == {}
    world.report(*slices(HOUR_US // 6))
    assert list(world.billing.silence.last_at) == [f"mtr_{LEASE}"]
    world.ended(2000 * SECOND)
    assert world.cost()["amount_nanos"] == H100.amount(2000 * SECOND)


def test_a_late_end_gives_back_what_was_billed_too_much() -> None:
    world = World(funds=10 * NANOS)
    world.running()
    world.wait(HOUR_US // 60)
    world.tick()
    world.ended(20 * SECOND)
    assert world.cost()["amount_nanos"] == H100.amount(20 * SECOND)
    assert world.balance()["available"] == 10 * NANOS - H100.amount(20 * SECOND)
    assert world.billing.totals.unaccounted_us == 0


def test_a_lease_ends_once() -> None:
    world = World()
    world.running()
    world.wait(10 * SECOND)
    world.ended(5 * SECOND)
    before = world.billing.state()
    world.ended(9 * SECOND)
    assert world.billing.state() == before


def test_what_arrives_after_the_end_confirms_and_costs_nothing() -> None:
    world = World()
    world.running()
    world.wait(20 * SECOND)
    world.ended(10 * SECOND)
    balance = dict(world.balance())
    reports = slices(4 * SECOND, 10 * SECOND)
    assert world.report(*reports, *reports) == [Verdict.RECORD] * 2 + [Verdict.KNOWN] * 2
    assert world.cost()["confirmed_us"] == 10 * SECOND
    assert world.balance() == balance


def test_what_ran_beyond_the_end_is_disputed_and_costs_nothing() -> None:
    world = World()
    world.running()
    world.wait(20 * SECOND)
    world.ended(10 * SECOND)
    balance = dict(world.balance())
    assert world.report(*slices(8 * SECOND, 15 * SECOND, 19 * SECOND)) == [
        Verdict.RECORD,
        Verdict.BEYOND_END,
        Verdict.BEYOND_END,
    ]
    assert world.cost()["confirmed_us"] == 10 * SECOND
    assert world.balance() == balance


def test_a_lease_that_never_ran_costs_nothing_and_its_slices_are_not_awaited() -> None:
    world = World()
    world.place(hold())
    world.bound(hold())
    world.tell(lambda at: world.billing.close_meter(LEASE, at, at=at))
    assert world.balance()["held"] == 0
    assert world.report(*slices(SECOND)) == [Verdict.NEVER_ACTIVE]


def test_a_lease_keeps_the_price_it_began_with() -> None:
    world = World()
    later = world.now + HOUR_US
    doubled = price(Rate(2 * HOUR_COST, HOUR_US), effective_at=later)
    world.tell(lambda at: world.billing.publish_price(doubled, at=at))
    world.running("lse_before")
    world.wait(2 * HOUR_US)
    world.running("lse_after")
    world.wait(HOUR_US)
    world.ended(HOUR_US, "lse_before")
    world.ended(HOUR_US, "lse_after")
    assert world.cost("lse_before")["amount_nanos"] == HOUR_COST
    assert world.cost("lse_after")["amount_nanos"] == 2 * HOUR_COST


def test_a_lease_reported_late_has_the_price_of_its_beginning() -> None:
    world = World()
    world.wait(HOUR_US)
    doubled = price(Rate(2 * HOUR_COST, HOUR_US))
    world.tell(lambda at: world.billing.publish_price(doubled, at=at))
    world.wait(SECOND)
    world.activated(ago_us=2 * SECOND)
    assert world.cost()["price_nanos"] == HOUR_COST


def test_a_lease_of_an_unknown_model_waits_for_a_price() -> None:
    world = World()
    unknown = replace(activation(activated_at=world.now), gpu_model="B300")
    with pytest.raises(Refused) as refused:
        world.tell(lambda at: world.billing.open_meter(unknown, at=at))
    assert refused.value.code == "NO_PRICE"
    assert world.billing.costs.tenants == {}


def test_events_of_a_lease_carry_its_intent_also_on_the_account() -> None:
    world = World()
    world.running()
    world.wait(600 * SECOND)
    world.report(*slices(600 * SECOND))
    world.ended(600 * SECOND)
    of_lease = [event for event in world.log.events if event.correlation_id == f"wl_of_{LEASE}"]
    assert [event.topic.removeprefix("billing.") for event in of_lease] == [
        "account.hold_placed",
        "account.hold_renewed",  # bound
        "meter.opened",
        "account.hold_renewed",  # used up, filled again
        "meter.slice_recorded",
        "meter.closed",
        "account.hold_released",
    ]
    assert {event.tenant_id for event in of_lease} == {ACME}
