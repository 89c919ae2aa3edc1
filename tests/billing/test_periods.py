"""Periods: edges stored once, closed once, and every nano-unit of a lease invoiced once."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing import periods
from billing.domain import Period
from billing.money import HOUR_US
from chassis import canonical
from chassis.errors import Invalid
from tests.billing.world import ACME, H100, SECOND, World, hold, slice_

DAY = 24 * HOUR_US


def test_edges_are_months_of_the_zone_and_may_be_an_hour_short_or_long() -> None:
    march = periods.month_start(at("2026-03-15T00:00:00"), "Europe/Zurich")
    assert march == at("2026-02-28T23:00:00")
    assert periods.month_end(march, "Europe/Zurich") == at("2026-03-31T22:00:00")
    assert periods.month_end(march, "UTC") == at("2026-03-01T00:00:00")
    assert periods.month_end(at("2026-12-31T23:59:59"), "UTC") == at("2027-01-01T00:00:00")


def test_no_zone_of_that_name_is_refused() -> None:
    with pytest.raises(Invalid):
        periods.zone("../etc/passwd")
    with pytest.raises(Invalid):
        periods.zone("Mars/Olympus")


@given(st.integers(0, 4 * 10**15), st.sampled_from(["UTC", "Asia/Kolkata", "America/Sao_Paulo"]))
def test_a_time_is_in_its_month_and_months_touch(moment: int, zone: str) -> None:
    start, end = periods.month_start(moment, zone), periods.month_end(moment, zone)
    assert start <= moment < end
    assert periods.month_start(end, zone) == end
    assert 27 * DAY < end - start < 32 * DAY


def test_a_period_cannot_end_before_it_starts() -> None:
    with pytest.raises(Invalid):
        Period.open(ACME, 1, "UTC", 5, 5, at=1)


def test_another_zone_changes_no_period_that_is_open() -> None:
    world = begun()
    before = world.billing.periods.current(ACME)
    world.tell(lambda at: world.billing.set_terms(ACME, "Asia/Tokyo", 0, at=at))
    close(world)
    assert world.billing.periods.current(ACME) == before
    world.now = before["ends_at"]  # type: ignore[index]
    close(world)
    first, second = world.billing.periods.tenants[ACME]
    assert (first["zone"], second["zone"]) == ("UTC", "Asia/Tokyo")
    assert second["starts_at"] == first["ends_at"]


def test_a_lease_over_the_edge_is_split_there_and_costs_the_same() -> None:
    world = begun()
    edge = current_end(world)
    world.now = edge - HOUR_US
    world.running()
    world.wait(3 * HOUR_US)
    world.report(slice_(1, 0, 2 * HOUR_US + 12_345))
    close(world)
    world.ended(2 * HOUR_US + 12_345)
    (first,) = world.billing.invoices.of(ACME)
    second = world.invoice()
    (one,), (two,) = first["lines"], second["lines"]
    assert one["ended_at"] == edge == two["activated_at"]
    assert one["exact_nanos"] + two["exact_nanos"] == H100.amount(2 * HOUR_US + 12_345)
    assert (one["charge"], two["charge"]) == ("USAGE", "USAGE")
    assert paid(world) == first["total_nanos"] + second["total_nanos"]


def test_a_period_waits_for_its_watermark_but_not_longer_than_the_grace() -> None:
    world = begun()
    edge = current_end(world)
    world.now = edge - HOUR_US
    world.running()
    world.report(slice_(1, 0, 1))
    world.now = edge + SECOND
    close(world)
    assert world.billing.periods.current(ACME)["closed_at"] == 0  # type: ignore[index]
    world.now = edge + periods.GRACE_US
    close(world)
    first, second = world.billing.periods.tenants[ACME]
    assert (first["cause"], second["closed_at"]) == ("GRACE", 0)


def test_what_arrives_after_the_close_is_a_correction_with_its_own_time() -> None:
    world = begun()
    edge = current_end(world)
    world.now = edge - 2 * HOUR_US
    world.running()
    world.now = edge + periods.GRACE_US
    close(world)
    world.report(slice_(1, 0, 3 * HOUR_US))
    world.ended(3 * HOUR_US)
    late, usual = world.invoice()["lines"]
    assert (late["charge"], usual["charge"]) == ("CORRECTION", "USAGE")
    assert late["ended_at"] == usual["activated_at"] == edge
    assert late["exact_nanos"] + usual["exact_nanos"] == H100.amount(3 * HOUR_US)


def test_time_that_is_taken_back_after_the_close_stands_with_negative_money() -> None:
    world = begun()
    edge = current_end(world)
    world.now = edge - HOUR_US
    world.running()
    world.now = edge + HOUR_US
    world.report(slice_(1, 0, HOUR_US + 5))
    close(world)
    world.ended(HOUR_US // 2)
    (line,) = world.invoice()["lines"]
    assert line["charge"] == "CORRECTION"
    assert line["activated_at"] == edge
    assert line["gpu_us"] == line["ended_at"] - edge < 0
    total = sum(one["total_nanos"] for one in world.billing.invoices.of(ACME))
    assert paid(world) == total


def test_closing_twice_changes_nothing_and_a_rebuild_is_equal() -> None:
    world = begun()
    world.running()
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    world.now = current_end(world)
    close(world)
    before = len(world.log.events)
    close(world)
    assert len(world.log.events) == before
    assert [one["number"] for one in world.billing.invoices.of(ACME)] == [1]
    assert world.rebuilt().state() == world.billing.state()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40 * DAY), st.integers(0, 40 * DAY)), max_size=4),
    st.randoms(use_true_random=False),
    st.randoms(use_true_random=False),
)
def test_the_same_facts_in_any_order_close_to_the_same_invoice_bytes(
    leases: list[tuple[int, int]], one: Any, other: Any
) -> None:
    first, second = closed(leases, one), closed(leases, other)
    assert first == second


def closed(leases: list[tuple[int, int]], order: Any) -> bytes:
    """Leases that began and lasted so long, told in some order, then three periods closed."""
    world = begun()
    start = world.now
    world.now = start + 100 * DAY
    for number in order.sample(range(len(leases)), len(leases)):
        lease_id, (began, _) = f"lse_{number}", leases[number]
        world.bound(hold(lease_id))
        world.activated(lease_id, ago_us=world.now + 1 - start - began)
    for number in order.sample(range(len(leases)), len(leases)):
        world.ended(leases[number][1], f"lse_{number}")
    close(world)
    invoices = list(world.billing.invoices.of(ACME))
    assert paid(world) == sum(one["total_nanos"] for one in invoices)
    ends = [one["ends_at"] for one in world.billing.periods.tenants[ACME]]
    assert all(earlier < later for earlier, later in pairwise(ends))
    return canonical.dumps([[one["lines"], one["total_nanos"]] for one in invoices])


def paid(world: World) -> int:
    balance = world.balance()
    return 1_000_000_000_000 - balance["available"] - balance["held"] + balance["owed"]


def begun() -> World:
    world = World()
    close(world)
    return world


def close(world: World) -> None:
    while world.tell(lambda at: world.billing.close_due(at=at)):
        pass


def current_end(world: World) -> int:
    period = world.billing.periods.current(ACME)
    assert period is not None
    return int(period["ends_at"])


def at(text: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND
