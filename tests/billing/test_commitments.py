"""Committed use by the hour, and payments in another currency."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing import coverage
from billing.coverage import Use
from billing.money import HOUR_US, NANOS, Rate
from chassis.errors import ServiceError
from tests.billing.market import Market
from tests.billing.world import ACME, H100, SECOND

RESERVED = Rate(1_490_000_000, HOUR_US)


class Committed(Market):
    def commit(
        self,
        commitment_id: str = "cmt_1",
        *,
        gpu_count: int = 1,
        hours: int = 2,
        rate: Rate = RESERVED,
    ) -> int:
        """From the next hour on; answers when that begins."""
        starts_at = coverage.hour_of(self.now) + HOUR_US
        term = (starts_at, starts_at + hours * HOUR_US)
        self.tell(
            lambda at: self.billing.open_commitment(
                commitment_id, ACME, "H100", gpu_count, rate, term, at=at
            )
        )
        return starts_at

    def settle(self) -> None:
        while self.tell(lambda at: self.billing.settle_commitments(at=at)):
            pass

    def lease(self, lease_id: str, began: int, length: int, *, gpu_count: int = 1) -> None:
        """A lease that began and ended in the past."""
        self.begin(lease_id, gpu_count=gpu_count, activated_at=began)
        self.ended(length, lease_id)

    def hours(self) -> list[dict[str, Any]]:
        return [
            self.facts(event)
            for event in self.log.events
            if event.topic == "billing.account.commitment_settled"
        ]


def test_what_is_used_is_covered_and_what_is_not_is_posted_as_unused() -> None:
    world = Committed()
    starts_at = world.commit()
    world.wait(4 * HOUR_US)
    world.lease("lse_1", starts_at, HOUR_US)
    world.lease("lse_2", starts_at + HOUR_US, HOUR_US // 4)
    world.settle()
    first, second = world.hours()
    assert (first["used_gpu_us"], first["unused_gpu_us"]) == (HOUR_US, 0)
    assert (second["used_gpu_us"], second["unused_gpu_us"]) == (HOUR_US // 4, 3 * HOUR_US // 4)
    assert world.account("income:commit:H100") == -RESERVED.amount(HOUR_US + HOUR_US // 4)
    assert world.account("income:commit_unused") == -RESERVED.amount(3 * HOUR_US // 4)
    assert world.account("income:gpu:H100") == 0
    assert world.balance()["available"] == 1_000 * NANOS - 2 * RESERVED.price_nanos
    assert world.rebuilt().state() == world.billing.state()


def test_time_beyond_the_commitment_stays_on_demand_the_later_lease_first() -> None:
    world = Committed()
    starts_at = world.commit(gpu_count=2, hours=1)
    world.wait(4 * HOUR_US)
    world.lease("lse_b", starts_at, HOUR_US)
    world.lease("lse_a", starts_at, HOUR_US)
    world.lease("lse_c", starts_at - 1, HOUR_US + 1)
    world.settle()
    (hour,) = world.hours()
    assert [row["lease_id"] for row in hour["covered"]] == ["lse_c", "lse_a"]
    assert world.account("income:gpu:H100") == -H100.amount(HOUR_US) - H100.amount(1)


def test_an_hour_waits_until_its_leases_are_billed() -> None:
    world = Committed()
    starts_at = world.commit(hours=1)
    world.wait(HOUR_US)
    world.begin("lse_1", activated_at=starts_at)
    world.wait(HOUR_US + SECOND)
    world.settle()
    assert world.hours() == []
    world.ended(HOUR_US, "lse_1")
    world.settle()
    world.settle()
    assert len(world.hours()) == 1
    assert world.hours()[0]["unused_gpu_us"] == 0


def test_commitments_are_served_in_order_of_their_ids() -> None:
    world = Committed()
    world.commit("cmt_2", hours=1)
    starts_at = world.commit("cmt_1", hours=1)
    world.wait(4 * HOUR_US)
    world.lease("lse_1", starts_at, HOUR_US)
    world.settle()
    used = {hour["commitment_id"]: hour["used_gpu_us"] for hour in world.hours()}
    assert used == {"cmt_1": HOUR_US, "cmt_2": 0}


uses = st.builds(
    lambda number, gpu_us, amount: Use(f"lse_{number}", number % 3, gpu_us, amount, gpu_us),
    st.integers(0, 99),
    st.integers(1, 2 * HOUR_US),
    st.integers(0, 10 * NANOS),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(uses, max_size=5, unique_by=lambda use: use.lease_id),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_used_and_unused_are_what_is_reserved_in_any_order(
    found: list[Use], reserved: list[int], order: Any
) -> None:
    def settled(given: list[Use]) -> list[coverage.Hour]:
        fresh = [Use(u.lease_id, u.began, u.gpu_us, u.amount_nanos, u.gpu_us) for u in given]
        return [coverage.cover(RESERVED, count, 0, fresh) for count in reserved]

    shuffled = order.sample(found, len(found))
    hours = settled(found)
    assert hours == settled(shuffled)
    for hour, count in zip(hours, reserved, strict=True):
        assert hour.used_gpu_us + hour.unused_gpu_us == count * HOUR_US
        assert hour.used_nanos + hour.unused_nanos == RESERVED.amount(count * HOUR_US)
        assert hour.used_gpu_us == sum(int(row["gpu_us"]) for row in hour.covered)
    for use in found:
        rows = [row for hour in hours for row in hour.covered if row["lease_id"] == use.lease_id]
        covered = sum(int(row["gpu_us"]) for row in rows)
        assert covered <= use.gpu_us
        if covered == use.gpu_us:
            assert sum(int(row["amount_nanos"]) for row in rows) == use.amount_nanos


@given(st.integers(1, 400), st.integers(1, 9))
def test_the_hours_of_a_commitment_sum_up_to_its_price(hours: int, gpus: int) -> None:
    rate = Rate(2_490_000_001, 7 * HOUR_US)
    total = 0
    for number in range(hours):
        hour = coverage.cover(rate, gpus, number, [])
        total += hour.used_nanos + hour.unused_nanos
    assert total == round(Fraction(rate.price_nanos * gpus * hours, 7))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"term": (0, HOUR_US)}, "PAST_EFFECTIVE"),
        ({"term": (10**18 + 1, 10**18 + HOUR_US)}, "TERM"),
        ({"gpu_count": 0}, "GPU_COUNT"),
        ({"rate": Rate(0, HOUR_US)}, "PRICE"),
        ({"tenant_id": "ten_nobody"}, "ACCOUNT_NOT_FOUND"),
    ],
)
def test_a_commitment_that_makes_no_sense_is_refused(change: dict[str, Any], code: str) -> None:
    world = Committed()
    start = coverage.hour_of(world.now) + HOUR_US
    facts = {
        "tenant_id": ACME, "gpu_model": "H100", "gpu_count": 1, "rate": RESERVED,
        "term": (start, start + HOUR_US),
    }  # fmt: skip
    with pytest.raises(ServiceError) as refusal:
        world.tell(lambda at: world.billing.open_commitment("cmt_1", **facts | change, at=at))
    assert refusal.value.code == code


def exchanged(world: Market, **change: Any) -> int:
    facts: dict[str, Any] = {
        "amount_nanos": 100 * NANOS, "currency": "EUR", "rate": (10_850, 10_000),
        "source": "ECB", "quoted_at": world.now, "reference": "pay_1",
    }  # fmt: skip
    return world.tell(lambda at: world.billing.exchange(ACME, **facts | change, at=at))


def test_a_payment_in_another_currency_is_two_linked_transactions() -> None:
    world = Market(funds=0)
    assert exchanged(world) == 108_500_000_000
    assert exchanged(world) == 108_500_000_000, "once per reference"
    ledger = world.billing.ledger
    assert ledger.balances["EUR"] == {
        "asset:cash": 100 * NANOS, "equity:fx:EUR_USD": -100 * NANOS
    }  # fmt: skip
    assert world.account("equity:fx:EUR_USD") == 108_500_000_000
    assert world.balance()["available"] == 108_500_000_000
    assert set(ledger.imbalance.values()) == {0}
    came, credited = (world.facts(event) for event in world.log.events[-2:])
    assert came["reference"] == credited["reference"] == "pay_1"
    assert (came["rate_n"], came["rate_d"], came["source"]) == (10_850, 10_000, "ECB")
    assert world.rebuilt().state() == world.billing.state()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"currency": "USD"}, "CURRENCY"),
        ({"currency": "ZZZ"}, "CURRENCY"),
        ({"amount_nanos": 0}, "AMOUNT"),
        ({"amount_nanos": 1.5}, "MONEY"),
        ({"rate": (1.085, 1)}, "MONEY"),
        ({"rate": (0, 1)}, "AMOUNT"),
        ({"source": ""}, "SOURCE"),
        ({"quoted_at": 1}, "QUOTE_AGE"),
    ],
)
def test_an_exchange_that_makes_no_sense_is_refused(change: dict[str, Any], code: str) -> None:
    world = Market()
    with pytest.raises(ServiceError) as refusal:
        exchanged(world, **change)
    assert refusal.value.code == code
