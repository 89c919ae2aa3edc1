"""What machines of providers cost, however the news of them comes."""

from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from billing.margin import By, Margin
from billing.money import HOUR_US, half_even
from billing.provider_cost import DAY_US
from leasehold.billing.v1 import provider_events_pb2
from tests.billing.provider_world import INSTANCE, PRICE, SOURCE, VM, ProviderWorld
from tests.billing.world import NODE, NOON, SECOND
from tests.test_contracts import message_of

PARTS = ("leased_nanos", "idle_nanos", "leak_nanos")
HOUR = 3600 * SECOND


def cost(us: int, price: int = PRICE) -> int:
    return half_even(price * us, HOUR_US)


@given(st.lists(st.integers(1, 4_000 * SECOND), max_size=12), st.integers(1, 10**14))
def test_the_cost_of_a_machine_does_not_depend_on_when_it_was_accrued(
    waits: list[int], price: int
) -> None:
    world = ProviderWorld()
    world.rented(price=price)
    started_at = world.machine()["started_at"]
    for wait in waits:
        world.wait(wait)
        world.accrue()
    world.wait(7)
    ended_at = world.now
    world.gone(happened_at=ended_at)
    assert sum(world.machine()[part] for part in PARTS) == cost(ended_at - started_at, price)
    assert world.account(f"liability:provider_accrued:{SOURCE}") == -cost(
        ended_at - started_at, price
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["start", "end", "tick", "wait"]),
            st.integers(1, 3),
            st.integers(1, 900 * SECOND),
        ),
        max_size=25,
    )
)
def test_leased_idle_and_leaked_cost_sum_up_to_the_whole(
    steps: list[tuple[str, int, int]],
) -> None:
    world = ProviderWorld(funds=10**15)
    world.rented()
    world.invited()
    world.orphan()
    running: dict[str, int] = {}
    for number, (step, gpus, us) in enumerate(steps):
        world.wait(us)
        if step == "start" and sum(running.values()) + gpus <= 8:
            world.running(f"lse_{number}", gpu_count=gpus)
            running[f"lse_{number}"] = gpus
        elif step == "end" and running:
            lease_id, _ = running.popitem()
            world.ended(world.now - world.cost(lease_id)["activated_at"], lease_id)
        elif step == "tick":
            world.accrue()
    for lease_id in running:
        world.ended(world.now - world.cost(lease_id)["activated_at"], lease_id)
    ended_at = world.now
    world.gone(happened_at=ended_at)
    world.cleared()
    world.accrue()
    row = world.machine()
    leases = [world.cost(lease_id) for lease_id in leases_of(world)]
    used = sum(one["gpu_count"] * (one["ended_at"] - one["activated_at"]) for one in leases)
    assert row["leased_nanos"] == half_even(PRICE * used, 8 * HOUR_US)
    assert sum(row[part] for part in PARTS) == cost(ended_at - row["started_at"])
    books = world.billing.ledger.balances["USD"]
    spent = sum(nanos for name, nanos in books.items() if name.startswith("expense:"))
    assert spent == -world.account(f"liability:provider_accrued:{SOURCE}")
    assert world.account("expense:warm_pool") == row["idle_nanos"]
    assert world.account(f"expense:provider:{SOURCE}:H100") == row["leased_nanos"]
    assert world.rebuilt().state() == world.billing.state()


def test_a_terminating_machine_costs_until_its_provider_no_longer_lists_it() -> None:
    world = ProviderWorld()
    world.rented()
    started_at = world.machine()["started_at"]
    world.wait(HOUR)
    world.terminating()
    world.wait(HOUR)
    world.accrue()
    assert world.machine()["idle_nanos"] == cost(world.now - started_at)
    world.wait(HOUR)
    ended_at = world.now
    world.gone(happened_at=ended_at)
    world.wait(HOUR)
    world.accrue()
    assert world.machine()["idle_nanos"] == cost(ended_at - started_at)


def test_cost_accrued_before_its_end_was_heard_of_is_taken_back() -> None:
    world = ProviderWorld()
    world.rented()
    started_at = world.machine()["started_at"]
    world.wait(HOUR)
    gone_at = world.now
    world.wait(HOUR)
    world.accrue()
    world.gone(happened_at=gone_at)
    assert world.account("expense:warm_pool") == cost(gone_at - started_at)


def test_an_orphan_leaks_from_when_it_was_found_until_it_is_cleared_and_again() -> None:
    world = ProviderWorld()
    for _ in range(2):
        world.orphan()
        world.orphan()
        world.wait(HOUR)
        world.cleared()
        world.cleared()
        world.wait(HOUR)
        world.accrue()
    assert world.account(f"expense:leak:{SOURCE}") == 2 * cost(HOUR + 2)


def test_a_lease_heard_of_late_moves_cost_and_not_the_sum() -> None:
    world = ProviderWorld()
    world.rented()
    world.invited()
    world.wait(HOUR)
    world.accrue()
    before = world.account(f"liability:provider_accrued:{SOURCE}")
    assert world.account("expense:warm_pool") == -before
    world.activated(gpu_count=8, ago_us=HOUR // 2)
    world.accrue()
    row = world.machine()
    assert row["leased_nanos"] > 0
    assert row["leased_nanos"] + row["idle_nanos"] == cost(row["accrued_us"])


def test_a_link_told_before_the_machine_counts() -> None:
    world = ProviderWorld()
    world.invited()
    world.rented()
    world.running(gpu_count=8)
    world.wait(HOUR)
    world.accrue()
    assert world.machine()["leased_nanos"] > cost(HOUR) * 99 // 100


def test_margins_of_following_hours_sum_up_to_the_margin_of_the_whole() -> None:
    world = ProviderWorld()
    world.rented()
    world.invited()
    world.running(gpu_count=4)
    world.wait(3 * HOUR + 17 * SECOND)
    world.ended(3 * HOUR)
    world.orphan()
    world.wait(HOUR)
    begin = NOON // HOUR_US * HOUR_US
    edges = [begin + hour * HOUR for hour in range(7)]
    for by in By:
        whole = world.billing.margin(by, edges[0], edges[-1], at=world.now)
        parts = [
            row
            for first, last in zip(edges, edges[1:], strict=False)
            for row in world.billing.margin(by, first, last, at=world.now)
        ]
        for key in {row.key for row in whole}:
            total = sum(row.margin_nanos for row in whole if row.key == key)
            assert total == sum(row.margin_nanos for row in parts if row.key == key)
    (tenant,) = [row for row in whole_by(world, By.TENANT, edges) if row.key == "ten_acme"]
    assert tenant.revenue_nanos == world.cost()["amount_nanos"]
    world.accrue()
    machine = world.billing.machines.machine(f"prv_{INSTANCE}")
    assert tenant.provider_cost_nanos == half_even(PRICE * 4 * 3 * HOUR, 8 * HOUR_US)
    assert machine.provider_id == VM
    assert NODE in world.billing.machines.links


def test_every_event_of_the_provider_side_is_its_message_and_balances() -> None:
    world = ProviderWorld()
    world.rented()
    world.invited()
    world.running()
    world.wait(2 * DAY_US)
    world.terminating()
    world.gone()
    day = world.machine()["started_at"] // DAY_US
    world.bill(VM, day * DAY_US, (day + 1) * DAY_US, PRICE, "bill-1")
    world.tell(lambda at: world.billing.accept_match(day, SOURCE, VM, at=at))
    seen = set()
    for event in world.log.events:
        message = json_format.Parse(event.data, message_of(event.topic)())
        if hasattr(message, "postings"):
            assert sum(posting.amount_nanos for posting in message.postings) == 0
        seen.add(type(message).__name__)
    known = provider_events_pb2.DESCRIPTOR.message_types_by_name
    assert {name for name in known if "meta" in known[name].fields_by_name} <= seen
    assert world.rebuilt().state() == world.billing.state()


def whole_by(world: ProviderWorld, by: By, edges: list[int]) -> list[Margin]:
    return world.billing.margin(by, edges[0], edges[-1], at=world.now)


def leases_of(world: ProviderWorld) -> list[str]:
    return [lease["lease_id"] for lease in world.billing.lease_hours.leases.values()]
