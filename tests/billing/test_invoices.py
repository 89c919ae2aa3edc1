"""Invoices: every ended lease once, each line rounded once, and the ledger agrees."""

import pytest

from billing.domain.invoice import LINES_MAX
from billing.money import HOUR_US
from chassis.errors import NotFound, Refused
from tests.billing.world import ACME, H100, SECOND, World, hold

ODD_US = 1_234_567_891


def test_a_line_is_the_lease_and_is_rounded_once() -> None:
    world = World()
    run_lease(world, "lse_1", ODD_US, gpu_count=3)
    invoice = world.invoice()
    (line,) = invoice["lines"]
    exact = H100.amount(3 * ODD_US)
    assert line["exact_nanos"] == exact == world.cost("lse_1")["amount_nanos"]
    assert line["gpu_us"] == 3 * ODD_US
    assert line["ended_at"] - line["activated_at"] == ODD_US
    assert line["amount_nanos"] % 10_000_000 == 0
    assert abs(line["amount_nanos"] - exact) <= 5_000_000
    assert invoice["total_nanos"] == line["amount_nanos"]


def test_the_tenant_pays_the_total_income_is_exact_and_rounding_has_the_rest() -> None:
    world = World()
    for number in range(7):
        run_lease(world, f"lse_{number}", ODD_US + number * 17_000_003)
    exact = 1_000_000_000_000 - world.balance()["available"]
    total = world.invoice()["total_nanos"]
    assert exact != total
    assert 1_000_000_000_000 - world.balance()["available"] == total
    assert world.account("income:gpu:H100") == -exact
    assert world.account("equity:rounding:USD") == exact - total


def test_what_rounding_adds_is_owed_when_nothing_is_prepaid() -> None:
    world = World(funds=0)
    world.bound(hold())
    world.activated()
    world.wait(ODD_US)
    # 1.245 and a little: the invoice says 1.25.
    world.ended(1_800 * SECOND + 1)
    owed = world.balance()["owed"]
    total = world.invoice()["total_nanos"]
    assert total > owed
    assert world.balance() | {"owed": total} == world.balance()
    assert world.balance()["available"] == 0


def test_numbers_have_no_gaps_and_a_lease_is_invoiced_once() -> None:
    world = World()
    for number in (1, 2):
        run_lease(world, f"lse_{number}", ODD_US)
        invoice = world.invoice()
        assert (invoice["number"], len(invoice["lines"])) == (number, 1)
        with pytest.raises(Refused) as nothing:
            world.invoice()
        assert nothing.value.code == "NOTHING_TO_BILL"
    assert [one["number"] for one in world.billing.invoices.of(ACME)] == [1, 2]
    assert world.cost("lse_2")["invoice_id"] == invoice["invoice_id"]


def test_a_running_lease_is_not_invoiced() -> None:
    world = World()
    world.running()
    with pytest.raises(Refused):
        world.invoice()


def test_lines_stand_in_the_order_the_leases_began() -> None:
    world = World()
    for lease_id in ("lse_b", "lse_a"):
        world.running(lease_id)
    world.wait(HOUR_US)
    for lease_id in ("lse_a", "lse_b"):
        world.ended(HOUR_US, lease_id)
    assert [line["lease_id"] for line in world.invoice()["lines"]] == ["lse_b", "lse_a"]


def test_an_invoice_has_an_end_and_the_next_one_goes_on() -> None:
    world = World()
    for number in range(LINES_MAX + 5):
        run_lease(world, f"lse_{number:05d}", SECOND)
    assert [len(world.invoice()["lines"]) for _ in range(2)] == [LINES_MAX, 5]


def test_another_tenants_invoice_does_not_exist() -> None:
    world = World()
    run_lease(world, "lse_1", ODD_US)
    invoice_id = world.invoice()["invoice_id"]
    assert world.billing.invoice(invoice_id, ACME) == world.billing.invoice(invoice_id)
    with pytest.raises(NotFound):
        world.billing.invoice(invoice_id, "ten_b")


def run_lease(world: World, lease_id: str, lease_us: int, gpu_count: int = 1) -> None:
    world.running(lease_id, gpu_count=gpu_count)
    world.wait(lease_us)
    world.ended(lease_us, lease_id)
