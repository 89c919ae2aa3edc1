"""Prepaid money: payments, holds, what happens when it runs out, and prices."""

import pytest

from billing import policy
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import HoldAnswer, HoldRequest, MoneyRefusal, Verdict
from chassis.errors import NotFound, Refused, ServiceError
from tests.billing.world import ACME, H100, LEASE, SECOND, World, hold, price, slices

WINDOW = H100.amount(600 * SECOND)  # 0.415 in money


def test_a_payment_is_cash_and_owed_to_the_tenant() -> None:
    world = World(funds=5 * NANOS)
    assert world.account("asset:cash") == 5 * NANOS
    assert world.account(f"liability:prepaid:{ACME}") == -5 * NANOS


def test_a_payment_with_a_reference_counts_once() -> None:
    world = World(funds=0)
    for _ in range(2):
        assert world.top_up(NANOS, reference="wire 1")["available"] == NANOS
    with pytest.raises(Refused) as reused:
        world.top_up(2 * NANOS, reference="wire 1")
    assert reused.value.code == "REFERENCE_REUSED"


@pytest.mark.parametrize(
    ("amount", "currency", "code"),
    [
        (0, "USD", "AMOUNT"),
        (-NANOS, "USD", "AMOUNT"),
        (10**18 + 1, "USD", "AMOUNT"),
        (NANOS, "EUR", "CURRENCY_MISMATCH"),
        (10**18, "USD", "BALANCE_MAX"),  # with what is there already
    ],
)
def test_a_payment_that_cannot_be_taken_changes_nothing(
    amount: int, currency: str, code: str
) -> None:
    world = World()
    before = world.rebuilt().state()
    with pytest.raises(ServiceError) as refused:
        world.top_up(amount, currency=currency)
    assert refused.value.code == code
    assert world.rebuilt().state() == before


def test_nobody_is_paid_for_without_an_account() -> None:
    world = World()
    with pytest.raises(NotFound):
        world.tell(lambda at: world.billing.top_up("ten_404", NANOS, "USD", "", at=at))


def test_an_account_is_opened_once() -> None:
    world = World()
    world.tell(lambda at: world.billing.open_account(ACME, at=at))
    assert world.topics().count("account.opened") == 1


# One row for each refusal, most fundamental first; each breaks the later rules too.
@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (HoldRequest("lse_gone", "ten_404", "B300", 8, 0, ""), MoneyRefusal.NO_ACCOUNT),
        (HoldRequest("lse_gone", ACME, "B300", 8, 0, ""), MoneyRefusal.NO_PRICE),
        (HoldRequest("lse_gone", ACME, "H100", 8, 0, ""), MoneyRefusal.LAPSED),
        (HoldRequest("lse_new", ACME, "H100", 8, 0, ""), MoneyRefusal.BALANCE),
        (HoldRequest("lse_new", ACME, "H100", 1, 0, ""), None),
    ],
)
def test_a_hold_is_refused_with_the_first_reason(
    request_: HoldRequest, refusal: MoneyRefusal | None
) -> None:
    world = World(funds=WINDOW)
    world.place(hold("lse_gone"))
    world.released("lse_gone")
    (answer,) = world.place(request_)
    assert answer.refusal is refusal
    if refusal is MoneyRefusal.BALANCE:
        assert answer.detail == "3.32 USD is needed, 0.415 USD is available"


def test_holds_in_one_call_share_the_balance() -> None:
    world = World(funds=2 * WINDOW)
    answers = world.place(hold("lse_1"), hold("lse_2"), hold("lse_3"), hold("lse_1"))
    assert [answer.refusal for answer in answers] == [None, None, MoneyRefusal.BALANCE, None]
    assert world.balance() == {
        "currency": "USD", "available": 0, "held": 2 * WINDOW, "owed": 0
    }  # fmt: skip


def test_a_repeated_hold_gets_the_first_answer_and_another_request_is_refused() -> None:
    world = World()
    first = world.place(hold(seconds_max=60))
    assert first == [HoldAnswer(LEASE, H100.amount(60 * SECOND))]
    world.wait(10 * SECOND)
    assert world.place(hold(seconds_max=60)) == first
    with pytest.raises(Refused) as reused:
        world.place(hold(gpu_count=2, seconds_max=60))
    assert reused.value.code == "LEASE_ID_REUSED"


def test_another_tenant_cannot_hold_money_for_this_lease() -> None:
    world = World()
    world.place(hold())
    world.tell(lambda at: world.billing.open_account("ten_b", at=at))
    with pytest.raises(Refused):
        world.place(HoldRequest(LEASE, "ten_b", "H100", 1, 0, ""))


def test_a_hold_that_nobody_binds_expires() -> None:
    world = World(funds=WINDOW)
    world.place(hold())
    world.wait(policy.HOLD_LIFE_US - SECOND)
    world.tick()
    assert world.balance()["held"] == WINDOW
    world.wait(SECOND)
    world.tick()
    assert world.balance()["available"] == WINDOW
    assert world.place(hold())[0].refusal is MoneyRefusal.LAPSED


def test_a_released_hold_is_remembered_for_a_week_not_forever() -> None:
    world = World()
    for lease_id, days in (("lse_1", 0), ("lse_2", 6), ("lse_3", 2)):
        world.wait(days * 24 * HOUR_US)
        world.place(hold(lease_id))
        world.released(lease_id)
    assert list(world.billing.holds.gone) == ["lse_2", "lse_3"]


def test_a_bound_hold_neither_expires_nor_is_released_by_request() -> None:
    world = World()
    world.place(hold())
    world.bound(hold())
    world.wait(2 * policy.HOLD_LIFE_US)
    world.tick()
    world.released(LEASE, LEASE, "lse_404")
    assert world.balance()["held"] == WINDOW


def test_a_lease_bound_after_its_hold_expired_is_held_again() -> None:
    world = World()
    world.place(hold())
    world.wait(policy.HOLD_LIFE_US)
    world.tick()
    world.bound(hold())
    assert world.balance()["held"] == WINDOW
    assert world.topics()[-1] == "account.hold_placed"


def test_a_lease_bound_without_enough_money_is_exhausted_at_once() -> None:
    world = World(funds=WINDOW // 4)
    world.bound(hold())
    assert world.topics()[-2:] == ["account.hold_placed", "account.exhausted"]
    assert world.balance()["held"] == WINDOW // 4


def test_a_running_lease_exhausts_its_tenant_once_with_a_reserve_to_stop() -> None:
    world = World(funds=2 * WINDOW)
    world.running()
    for seq in range(1, 241):
        world.wait(5 * SECOND)
        world.report(slices(*range(5 * SECOND, 1205 * SECOND, 5 * SECOND))[seq - 1])
        if world.billing.totals.exhausted_count:
            break
    assert world.balance()["available"] == 0
    left = world.balance()["held"]
    assert 0.45 * WINDOW < left < 0.5 * WINDOW
    world.ended(seq * 5 * SECOND)
    assert world.balance()["available"] == left
    assert world.topics().count("account.exhausted") == 1


def test_a_short_lease_that_was_held_in_full_never_exhausts_its_tenant() -> None:
    world = World(funds=H100.amount(60 * SECOND))
    world.running(seconds_max=60)
    for end in range(5, 61, 5):
        world.wait(5 * SECOND)
        world.report(slices(*range(5 * SECOND, 61 * SECOND, 5 * SECOND))[end // 5 - 1])
    world.ended(60 * SECOND)
    assert world.billing.totals.exhausted_count == 0
    assert world.balance() == {"currency": "USD", "available": 0, "held": 0, "owed": 0}


def test_renewing_a_hold_is_rarer_than_slices() -> None:
    world = World()
    world.running()
    world.wait(1200 * SECOND)
    world.report(*slices(*range(5 * SECOND, 1201 * SECOND, 5 * SECOND)))
    renewed = world.topics().count("account.hold_renewed") - 1  # one was the binding
    assert 3 <= renewed <= 4


def test_what_nothing_covers_is_owed_and_settled_by_the_next_payment() -> None:
    world = World(funds=WINDOW)
    world.running()
    world.wait(HOUR_US)
    assert world.report(*slices(HOUR_US)) == [Verdict.RECORD]
    owed = H100.amount(HOUR_US) - WINDOW
    assert world.balance() == {"currency": "USD", "available": 0, "held": 0, "owed": owed}
    assert world.account(f"asset:receivable:{ACME}") == owed
    assert world.place(hold("lse_2"))[0].refusal is MoneyRefusal.BALANCE
    world.ended(HOUR_US)
    assert world.top_up(owed + 5) == {"currency": "USD", "available": 5, "held": 0, "owed": 0}
    assert world.balance()["available"] == 5


def test_money_that_comes_back_settles_what_is_owed_first() -> None:
    world = World(funds=2 * WINDOW)
    world.running("lse_1")
    world.place(hold("lse_2"))
    world.wait(HOUR_US)
    world.report(*slices(HOUR_US, lease_id="lse_1"))
    owed = world.balance()["owed"]
    world.released("lse_2")
    assert world.balance()["owed"] == owed - WINDOW
    assert world.balance()["available"] == 0


@pytest.mark.parametrize(
    ("offered", "code"),
    [
        (price(effective_at=1), "PAST_EFFECTIVE"),
        (price(currency="EUR"), "CURRENCY_MISMATCH"),
        (price(Rate(0, HOUR_US)), "PRICE"),
        (price(Rate(1, 0)), "PRICE"),
        (price(Rate(10**15, HOUR_US)), "PRICE"),
    ],
)
def test_a_price_that_cannot_be_published_changes_nothing(offered: policy.Price, code: str) -> None:
    world = World()
    with pytest.raises(ServiceError) as refused:
        world.tell(lambda at: world.billing.publish_price(offered, at=at))
    assert refused.value.code == code
    assert len(world.billing.prices.published) == 1


def test_prices_of_the_settings_are_published_once() -> None:
    world = World()
    wanted = [price(Rate(1, 1)), policy.Price("B300", H100, "USD", 0)]
    for _ in range(2):
        world.tell(lambda at: world.billing.publish_missing(wanted, at=at))
    published = [(row["gpu_model"], row["price_version"]) for row in world.billing.prices.published]
    assert published == [("H100", 1), ("B300", 2)]


def test_a_price_that_has_not_begun_holds_nothing() -> None:
    world = World()
    coming = policy.Price("B300", H100, "USD", world.now + HOUR_US)
    world.tell(lambda at: world.billing.publish_price(coming, at=at))
    (answer,) = world.place(HoldRequest(LEASE, ACME, "B300", 1, 0, ""))
    assert answer.refusal is MoneyRefusal.NO_PRICE
