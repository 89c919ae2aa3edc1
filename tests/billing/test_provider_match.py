"""What was metered, leased and billed, compared: one outcome for each way they can differ."""

import pytest

from billing.domain.provider_bill import BillReused
from billing.provider_cost import DAY_US, Kind
from billing.provider_match import LeaseDay, MachineDay, Outcome
from chassis.errors import NotFound, Refused
from tests.billing.provider_world import PRICE, SOURCE, VM, ProviderWorld
from tests.billing.world import NOON, SECOND, slice_

HOUR = 3600 * SECOND
DAY = NOON // DAY_US
PERFECT = {
    "source_id": SOURCE,
    "provider_id": VM,
    "instance_id": "ins_1",
    "kind": "INSTANCE",
    "currency": "USD",
    "present_us": 10 * HOUR,
    "billed_us": 10 * HOUR,
    "leased_gpu_us": 80 * HOUR,
    "metered_gpu_us": 80 * HOUR,
    "expected_nanos": 10 * PRICE,
    "billed_nanos": 10 * PRICE,
    "is_billed": True,
}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, Outcome.MATCHED),
        ({"billed_us": 10 * HOUR + 60 * SECOND}, Outcome.MATCHED),
        ({"billed_nanos": 10 * PRICE + PRICE // 60}, Outcome.MATCHED),
        ({"metered_gpu_us": 80 * HOUR - 80 * HOUR // 1000}, Outcome.MATCHED),
        ({"kind": str(Kind.ORPHAN)}, Outcome.ORPHAN),
        ({"kind": str(Kind.ORPHAN), "is_billed": False}, Outcome.ORPHAN),
        ({"kind": ""}, Outcome.UNKNOWN_MACHINE),
        ({"is_billed": False, "billed_us": 0, "billed_nanos": 0}, Outcome.PROVIDER_UNBILLED),
        ({"billed_us": 11 * HOUR, "billed_nanos": 11 * PRICE}, Outcome.PROVIDER_OVERBILLED),
        ({"billed_us": 9 * HOUR, "billed_nanos": 9 * PRICE}, Outcome.PROVIDER_UNDERBILLED),
        ({"billed_nanos": 11 * PRICE}, Outcome.PRICE_DIFFERS),
        ({"billed_nanos": 9 * PRICE}, Outcome.PRICE_DIFFERS),
        ({"metered_gpu_us": 79 * HOUR}, Outcome.LEASED_NOT_METERED),
        ({"leased_gpu_us": 79 * HOUR}, Outcome.METERED_NOT_LEASED),
        ({"leased_gpu_us": 0, "metered_gpu_us": 0}, Outcome.MATCHED),
        # Of two disagreements the more fundamental is named.
        ({"billed_us": 11 * HOUR, "metered_gpu_us": 0}, Outcome.PROVIDER_OVERBILLED),
        ({"billed_nanos": 11 * PRICE, "metered_gpu_us": 0}, Outcome.PRICE_DIFFERS),
    ],
)
def test_a_machine_day_has_one_outcome(change: dict[str, object], outcome: Outcome) -> None:
    assert MachineDay(**{**PERFECT, **change}).outcome is outcome  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("leased", "metered", "outcome"),
    [
        (HOUR, HOUR, Outcome.MATCHED),
        (HOUR, HOUR - 3 * SECOND, Outcome.MATCHED),
        (HOUR, HOUR - 4 * SECOND, Outcome.LEASED_NOT_METERED),
        (HOUR, HOUR + 4 * SECOND, Outcome.METERED_NOT_LEASED),
        (0, 2 * SECOND, Outcome.MATCHED),
        (0, 3 * SECOND, Outcome.METERED_NOT_LEASED),
    ],
)
def test_a_lease_day_is_right_to_two_seconds_or_a_thousandth(
    leased: int, metered: int, outcome: Outcome
) -> None:
    day = LeaseDay(
        lease_id="lse_1",
        tenant_id="ten_acme",
        leased_gpu_us=leased,
        metered_gpu_us=metered,
        provider_id=VM,
        provider_cost_nanos=0,
    )
    assert day.outcome is outcome


def test_a_day_that_was_metered_leased_and_billed_alike_is_matched() -> None:
    world = day_of_a_lease(confirmed=True)
    row = machine_row(world)
    world.bill(VM, row.expected_from, row.expected_until, row.found.expected_nanos, "bill-1")
    matched = machine_row(world).found
    assert matched.outcome is Outcome.MATCHED
    assert matched.difference_nanos == 0
    (lease,) = world.billing.match_leases(DAY, at=world.now)
    assert (lease.outcome, lease.leased_gpu_us) == (Outcome.MATCHED, 8 * HOUR)


def test_a_lease_its_node_did_not_confirm_is_not_metered() -> None:
    world = day_of_a_lease(confirmed=False)
    (lease,) = world.billing.match_leases(DAY, at=world.now)
    assert lease.outcome is Outcome.LEASED_NOT_METERED
    assert lease.provider_cost_nanos == PRICE


def test_a_difference_is_posted_when_it_is_accepted_and_only_once() -> None:
    world = day_of_a_lease(confirmed=True)
    row = machine_row(world)
    over = row.found.expected_nanos + 5_000_000_000
    world.bill(VM, row.expected_from, row.expected_until, over, "bill-1")
    assert machine_row(world).found.outcome is Outcome.PRICE_DIFFERS
    before = world.account(f"liability:provider_accrued:{SOURCE}")
    spent = world.account(f"expense:provider:{SOURCE}:H100")
    for posted in (5_000_000_000, 0):
        accepted = world.tell(lambda at: world.billing.accept_match(DAY, SOURCE, VM, at=at))
        assert accepted[1] == posted
    assert world.account(f"liability:provider_accrued:{SOURCE}") == before - 5_000_000_000
    assert world.account(f"expense:provider:{SOURCE}:H100") == spent + 5_000_000_000
    assert machine_row(world).found.accepted_nanos == 5_000_000_000
    assert world.rebuilt().state() == world.billing.state()


def test_a_machine_nobody_ever_saw_is_accepted_as_a_leak() -> None:
    world = day_of_a_lease(confirmed=True)
    world.bill("vm_stranger", DAY * DAY_US, (DAY + 1) * DAY_US, 24 * PRICE, "bill-2")
    world.tell(lambda at: world.billing.accept_match(DAY, SOURCE, "vm_stranger", at=at))
    assert world.account(f"expense:leak:{SOURCE}") == 24 * PRICE


def test_what_is_not_billed_or_not_over_or_not_there_cannot_be_accepted() -> None:
    world = day_of_a_lease(confirmed=True)
    with pytest.raises(Refused, match="nothing is billed"):
        world.tell(lambda at: world.billing.accept_match(DAY, SOURCE, VM, at=at))
    with pytest.raises(NotFound):
        world.tell(lambda at: world.billing.accept_match(DAY, SOURCE, "vm_404", at=at))
    today = world.now // DAY_US
    world.bill(VM, today * DAY_US, world.now, PRICE, "bill-3")
    with pytest.raises(Refused, match="not over"):
        world.tell(lambda at: world.billing.accept_match(today, SOURCE, VM, at=at))


def test_the_same_bill_again_is_known_and_another_under_its_name_is_refused() -> None:
    world = ProviderWorld()
    assert not world.bill(VM, NOON, NOON + HOUR, PRICE, "bill-1")
    position = len(world.log.events)
    assert world.bill(VM, NOON, NOON + HOUR, PRICE, "bill-1")
    assert len(world.log.events) == position
    with pytest.raises(BillReused):
        world.bill(VM, NOON, NOON + HOUR, PRICE + 1, "bill-1")


def test_a_line_over_several_days_is_spread_without_losing_a_nano() -> None:
    world = ProviderWorld()
    world.bill(VM, NOON, NOON + 3 * DAY_US + 1, 10**10 + 7, "bill-1")
    days = [rows[f"{SOURCE}/{VM}"] for rows in world.billing.bills.days.values()]
    assert sum(nanos for _, nanos, _ in days) == 10**10 + 7
    assert sum(us for _, _, us in days) == 3 * DAY_US + 1


class Row:
    def __init__(self, found: MachineDay, world: ProviderWorld) -> None:
        self.found = found
        self.expected_from = world.machine()["started_at"]
        self.expected_until = (DAY + 1) * DAY_US


def machine_row(world: ProviderWorld) -> Row:
    rows = world.billing.match_machines(DAY, SOURCE, at=world.now)
    (found,) = [row for row in rows if row.provider_id == VM]
    return Row(found, world)


def day_of_a_lease(*, confirmed: bool) -> ProviderWorld:
    """A machine from noon on, a lease of an hour on all of it, and the next day has come."""
    world = ProviderWorld(funds=10**14)
    world.rented()
    world.invited()
    world.running(gpu_count=8)
    world.wait(HOUR)
    if confirmed:
        world.report(slice_(1, 0, HOUR))
    world.ended(HOUR)
    world.wait(DAY_US)
    world.accrue()
    return world
