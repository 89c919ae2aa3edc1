"""The ledger as of one time, as known at another."""

from billing.bitemporal import FOREVER, Picture
from billing.money import HOUR_US
from tests.billing.world import H100, LEASE, SECOND, World, slice_


def test_without_cuts_it_is_the_ledger() -> None:
    world = told()
    picture = seen(world)
    served = {name: rows for name, rows in world.billing.ledger.balances.items() if rows}
    assert picture.balances == served
    assert picture.costs == {LEASE: world.cost()["amount_nanos"]}
    assert picture.unbalanced == []


def test_what_was_recorded_late_took_effect_early() -> None:
    world = World()
    world.running()
    began = world.cost()["activated_at"]
    world.wait(2 * HOUR_US)
    before = world.now
    world.report(slice_(1, 0, HOUR_US))
    assert seen(world, as_of=began + HOUR_US).costs == {LEASE: H100.amount(HOUR_US)}
    assert seen(world, as_of=began + HOUR_US - 1).costs == {}
    assert seen(world, as_known=before).costs == {}


def test_an_answer_about_the_past_stays_the_same() -> None:
    world = told()
    then = world.now
    before = seen(world, as_of=then, as_known=then)
    world.running("lse_2")
    world.wait(HOUR_US)
    world.ended(HOUR_US, "lse_2")
    after = seen(world, as_of=then, as_known=then)
    assert (after.balances, after.costs) == (before.balances, before.costs)


def test_every_picture_balances() -> None:
    world = told()
    for event in world.log.events:
        cut = seen(world, as_known=world.now - event.position * 600 * SECOND)
        assert all(sum(rows.values()) == 0 for rows in cut.balances.values())


def seen(world: World, *, as_of: int = FOREVER, as_known: int = FOREVER) -> Picture:
    picture = Picture()
    picture.take(world.log.events, as_of=as_of, as_known=as_known)
    return picture


def told() -> World:
    world = World()
    world.running()
    world.wait(HOUR_US)
    world.report(slice_(1, 0, HOUR_US // 2), slice_(2, HOUR_US // 2, HOUR_US))
    world.ended(HOUR_US // 2)
    world.invoice()
    return world
