"""Service credits: computed from windows by tier, posted with their proof, claimed by nobody."""

from dataclasses import replace

import pytest

from billing import sla
from billing.money import HOUR_US, NANOS
from chassis import canonical
from tests.billing.world import ACME, LEASE, World, activation, hold

MINUTE = HOUR_US // 60
DOLLAR = NANOS


@pytest.mark.parametrize(
    ("tier", "minutes", "owed"),
    [
        ("gold", 0, 0),
        ("gold", 1, 50 * DOLLAR // 2),
        ("gold", 4, 50 * DOLLAR),
        ("gold", 60, 50 * DOLLAR),
        ("silver", 1, 10 * DOLLAR),
        ("silver", 4, 25 * DOLLAR),
        ("bronze", 2, 0),
        ("bronze", 4, 10 * DOLLAR),
        ("", 60, 0),
    ],
)
def test_the_schedule_of_the_tier_says_what_is_owed(tier: str, minutes: int, owed: int) -> None:
    line = {"activated_at": 0, "ended_at": HOUR_US, "amount_nanos": 100 * DOLLAR}
    windows = sla.within([window(0, minutes * MINUTE)], 0, HOUR_US) if minutes else []
    assert sla.owed(line, windows, tier, "USD") == owed


def test_windows_count_only_within_the_line_and_an_open_one_lasts_to_its_end() -> None:
    found = sla.within([window(50, 0), window(5, 15), window(0, 4)], 10, 60)
    assert [(one["starts_at"], one["ends_at"]) for one in found] == [(10, 15), (50, 60)]


def test_a_throttled_lease_is_credited_with_the_proof_of_its_windows() -> None:
    world = throttled("silver")
    invoice = world.invoice()
    (note,) = invoice["credits"]
    (proof,) = note["windows"]
    assert (proof["opened_by"], proof["closed_by"]) == ("enforcement/0/7", "enforcement/0/9")
    assert proof["ends_at"] - proof["starts_at"] == 10 * MINUTE
    amount = note["amount_nanos"]
    assert amount == invoice["lines"][0]["amount_nanos"] // 4 // 10_000_000 * 10_000_000 > 0
    assert world.account("expense:sla_credit") == amount
    assert world.billing.funds(ACME)["promo_nanos"] == amount
    assert world.billing.invoice(invoice["invoice_id"])["credits"] == [note]
    assert world.rebuilt().state() == world.billing.state()


def test_without_a_tier_nothing_is_owed() -> None:
    world = throttled("")
    assert world.invoice()["credits"] == []
    assert world.account("expense:sla_credit") == 0


def test_a_step_told_twice_is_one_window() -> None:
    world = throttled("gold")
    began = [one for one in world.log.events if one.topic == "billing.impairment.began"]
    assert len(began) == 1
    assert canonical.loads(began[0].data)["step"] == "throttle"


def throttled(tier: str) -> World:
    """A lease of two hours, ten minutes of them throttled."""
    world = World()
    world.bound(hold())
    began = world.now
    lease = replace(activation(activated_at=began), sla_tier=tier)
    world.tell(lambda at: world.billing.open_meter(lease, at=at))
    world.wait(HOUR_US)
    since = world.now
    for _ in range(2):
        world.tell(
            lambda at: world.billing.impair(
                LEASE, ACME, "throttle", since, "enforcement/0/7", at=at
            )
        )
    for _ in range(2):
        world.tell(
            lambda at: world.billing.restore(LEASE, since + 10 * MINUTE, "enforcement/0/9", at=at)
        )
    world.wait(HOUR_US)
    world.ended(2 * HOUR_US)
    return world


def window(starts_at: int, ends_at: int) -> dict[str, object]:
    return {
        "starts_at": starts_at, "ends_at": ends_at, "step": "throttle",
        "opened_by": "enforcement/0/1", "closed_by": "",
    }  # fmt: skip
