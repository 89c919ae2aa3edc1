"""Credit, promotional money, runway, budgets, credit notes: no limit is passed."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from billing import funds
from billing.domain import Account
from billing.domain.account_terms import Grant
from billing.money import HOUR_US, NANOS
from billing.policy import HoldRequest, MoneyRefusal
from billing.postings import Unbalanced, balanced
from chassis import canonical
from chassis.errors import Denied, Invalid, NotFound, Refused, ServiceError
from tests.billing.test_periods import close, current_end
from tests.billing.world import ACME, H100, SECOND, World, hold, slice_

CENT = 10_000_000
WINDOW = H100.amount(600 * SECOND)


def test_promotional_money_is_spent_first_and_what_is_left_goes_back() -> None:
    world = World(funds=NANOS)
    grant(world, NANOS // 2)
    world.running()
    world.wait(HOUR_US // 4)
    world.ended(HOUR_US // 4)
    spent = H100.amount(HOUR_US // 4)
    funds = world.billing.funds(ACME)
    assert spent > NANOS // 2
    assert (funds["promo_nanos"], funds["prepaid_nanos"]) == (0, NANOS + NANOS // 2 - spent)
    assert world.account("expense:promotion") == NANOS // 2


def test_a_grant_that_expires_unspent_is_breakage_and_one_that_is_held_waits() -> None:
    world = World(funds=0)
    grant(world, 2 * WINDOW, expires_in=HOUR_US)
    world.running()
    world.wait(2 * HOUR_US)
    watch(world)
    assert world.account("income:breakage") == -WINDOW
    world.ended(0)
    watch(world)
    assert world.account("income:breakage") == -2 * WINDOW
    assert world.account(f"liability:promo:{ACME}") == 0


def test_a_grant_counts_once() -> None:
    world = World(funds=0)
    grant(world, NANOS)
    grant(world, NANOS)
    assert world.billing.funds(ACME)["promo_nanos"] == NANOS
    with pytest.raises(Refused) as reused:
        grant(world, 2 * NANOS)
    assert reused.value.code == "REFERENCE_REUSED"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"currency": "EUR"}, "CURRENCY_MISMATCH"),
        ({"amount_nanos": 0}, "AMOUNT"),
        ({"amount_nanos": 10**18 + 1}, "AMOUNT"),
        ({"expires_at": 1}, "EXPIRES_AT"),
    ],
)
def test_a_grant_that_cannot_be_given_changes_nothing(changes: dict[str, Any], code: str) -> None:
    world = World(funds=0)
    facts = {
        "grant_id": "g", "amount_nanos": NANOS, "currency": "USD",
        "expires_at": world.now + HOUR_US, "reason": "welcome",
    }  # fmt: skip
    with pytest.raises(ServiceError) as refused:
        world.tell(lambda at: world.billing.grant_promo(ACME, Grant(**facts | changes), at=at))
    assert refused.value.code == code
    assert world.account(f"liability:promo:{ACME}") == 0


def test_a_postpaid_tenant_holds_up_to_its_limit_and_not_beyond() -> None:
    world = World(funds=0)
    limit(world, 2 * WINDOW)
    answers = world.place(hold("lse_1"), hold("lse_2"), hold("lse_3"))
    assert [one.refusal for one in answers] == [None, None, MoneyRefusal.BALANCE]
    assert world.balance()["owed"] == 2 * WINDOW
    world.released("lse_1")
    assert world.balance()["owed"] == WINDOW


def test_each_runway_is_told_of_once_until_money_comes_in() -> None:
    world = World(funds=3 * NANOS)
    world.running()
    for _ in range(3):
        watch(world)
    told = world.topics().count("account.runway_short")
    assert told == 1
    world.top_up(NANOS)
    watch(world)
    assert world.topics().count("account.runway_short") == 2
    world.wait(HOUR_US)
    world.report(slice_(1, 0, HOUR_US))
    watch(world)
    last = canonical.loads(world.log.events[-1].data)
    assert last["threshold_us"] == 3600 * SECOND >= last["runway_us"]
    assert world.rebuilt().state() == world.billing.state()


def test_a_hard_budget_refuses_what_would_pass_it_also_within_one_call() -> None:
    world = World()
    close(world)
    budget(world, "research", hard=WINDOW + 1)
    answers = world.place(of("lse_1", "research"), of("lse_2", "research"), of("lse_3", "web"))
    assert [one.refusal for one in answers] == [None, MoneyRefusal.BUDGET, None]
    budget(world, "", hard=2 * WINDOW)
    assert world.place(of("lse_4", "web"))[0].refusal is MoneyRefusal.BUDGET
    world.released("lse_1")
    assert world.place(of("lse_5", "research"))[0].refusal is None


def test_a_budget_begins_anew_with_each_period_and_its_soft_amount_is_told_once() -> None:
    world = World()
    close(world)
    budget(world, "research", soft=NANOS, hard=3 * NANOS)
    world.running()
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    watch(world)
    watch(world)
    assert world.topics().count("budget.soft_passed") == 1
    assert world.place(of("lse_2", "research", gpu_count=2))[0].refusal is MoneyRefusal.BUDGET
    world.now = current_end(world)
    close(world)
    (shown,) = world.billing.list_budgets(ACME, world.now)
    assert (shown["used_nanos"], shown["forecast_nanos"]) == (0, 0)
    assert world.place(of("lse_3", "research", gpu_count=2))[0].refusal is None
    assert world.rebuilt().state() == world.billing.state()


def test_what_was_used_before_the_first_period_opened_counts_in_it() -> None:
    world = World()
    budget(world, "research", hard=3 * NANOS)
    world.running()
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    close(world)
    (shown,) = world.billing.list_budgets(ACME, world.now)
    assert shown["used_nanos"] == H100.amount(HOUR_US)


def test_only_who_may_raises_a_budget() -> None:
    world = World()
    budget(world, "research", hard=NANOS)
    budget(world, "research", hard=NANOS // 2, role="finance")
    for hard in (NANOS, 0):
        with pytest.raises(Denied) as denied:
            budget(world, "research", hard=hard, role="finance")
        assert denied.value.code == "BUDGET_RAISE"
    budget(world, "research", hard=NANOS, role="tenant_admin")
    with pytest.raises(Invalid):
        budget(world, "research", soft=2 * NANOS, hard=NANOS)


def test_a_credit_note_gives_back_part_of_a_line_and_no_more_than_remains() -> None:
    world = World()
    world.running()
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    invoice = world.invoice()
    before, income = world.balance()["available"], world.account("income:gpu:H100")
    note = credit(world, invoice["invoice_id"], 200 * CENT)
    assert world.balance()["available"] == before + 200 * CENT
    assert world.account("income:gpu:H100") == income + 200 * CENT
    shown = world.billing.invoice(invoice["invoice_id"])
    assert shown["credits"] == [note]
    assert shown["lines"] == invoice["lines"]
    with pytest.raises(Refused) as beyond:
        credit(world, invoice["invoice_id"], 50 * CENT)
    assert beyond.value.code == "CREDIT_BEYOND_LINE"
    for amount in (0, -CENT, CENT + 1):
        with pytest.raises(Invalid):
            credit(world, invoice["invoice_id"], amount)
    with pytest.raises(NotFound):
        credit(world, invoice["invoice_id"], CENT, line=2)
    assert world.rebuilt().state() == world.billing.state()


def test_an_unbalanced_posting_is_refused() -> None:
    with pytest.raises(Unbalanced):
        balanced(("asset:cash", 2), ("liability:tax", -1))


def test_tax_is_asked_once_and_paid_with_the_invoice() -> None:
    world = World()
    world.billing.tax = lambda line, currency: CENT
    world.running()
    world.wait(HOUR_US)
    world.ended(HOUR_US)
    invoice = world.invoice()
    assert (invoice["tax_nanos"], invoice["lines"][0]["tax_nanos"]) == (CENT, CENT)
    assert 1_000 * NANOS - world.balance()["available"] == invoice["total_nanos"] == 250 * CENT
    assert world.account("liability:tax") == -CENT
    assert world.rebuilt().state() == world.billing.state()


class Limits(RuleBasedStateMachine):
    """Holds, credit and grants in any order: nothing is set aside that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.leases: list[str] = []
        self.count = 0

    @initialize(funds=st.integers(0, 3 * NANOS))
    def begin(self, funds: int) -> None:
        self.world = World(funds=funds)
        close(self.world)

    @rule(amount=st.integers(1, NANOS))
    def top_up(self, amount: int) -> None:
        self.world.top_up(amount)

    @rule(amount=st.integers(1, NANOS), lasts=st.integers(SECOND, 3 * HOUR_US))
    def promote(self, amount: int, lasts: int) -> None:
        self.count += 1
        grant(self.world, amount, grant_id=f"g{self.count}", expires_in=lasts)

    @rule(extra=st.integers(0, 2 * NANOS))
    def raise_limit(self, extra: int) -> None:
        limit(self.world, self.account.limit_nanos + extra)

    @rule(gpu_count=st.integers(1, 4))
    def place(self, gpu_count: int) -> None:
        before = self.account.available_nanos
        self.count += 1
        lease_id = f"lse_{self.count}"
        (answer,) = self.world.place(hold(lease_id, gpu_count=gpu_count))
        assert (answer.refusal is None) == (answer.amount_nanos <= before)
        if answer.refusal is None:
            self.leases.append(lease_id)
            assert self.account.available_nanos == before - answer.amount_nanos

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from(self.leases))
        self.leases.remove(lease_id)
        self.world.released(lease_id)

    @rule(us=st.integers(1, HOUR_US))
    def wait(self, us: int) -> None:
        self.world.wait(us)
        watch(self.world)

    @property
    def account(self) -> Account:
        account = self.world.billing.find(Account, f"acc_{ACME}")
        assert account is not None
        return account

    @invariant()
    def nothing_passes_the_limit(self) -> None:
        account = self.account
        assert min(account.prepaid_nanos, account.promo_nanos, account.owed_nanos) >= 0
        assert account.owed_nanos <= account.limit_nanos
        assert account.available_nanos == funds.available(
            prepaid=account.prepaid_nanos,
            promo=account.promo_nanos,
            limit=account.limit_nanos,
            owed=account.owed_nanos,
        )
        assert self.world.account(f"liability:promo:{ACME}") == -account.promo_nanos
        assert self.world.billing.ledger.imbalance.get("USD", 0) == 0

    def teardown(self) -> None:
        if hasattr(self, "world"):
            assert self.world.rebuilt().state() == self.world.billing.state()


Limits.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLimits = Limits.TestCase


def grant(
    world: World, amount: int, *, grant_id: str = "welcome", expires_in: int = 100 * HOUR_US
) -> None:
    given = Grant(grant_id, amount, "USD", world.now + 1 + expires_in, "welcome")
    world.tell(lambda at: world.billing.grant_promo(ACME, given, at=at))


def limit(world: World, amount: int) -> None:
    world.tell(lambda at: world.billing.set_terms(ACME, "", amount, at=at))


def watch(world: World) -> None:
    world.tell(lambda at: world.billing.watch_money(at=at))


def budget(
    world: World, project: str, *, soft: int = 0, hard: int = 0, role: str = "operator"
) -> None:
    world.tell(lambda at: world.billing.set_budget(ACME, project, soft, hard, role, at=at))


def credit(world: World, invoice_id: str, amount: int, *, line: int = 1) -> dict[str, Any]:
    return world.tell(
        lambda at: world.billing.credit_line(invoice_id, line, amount, "as agreed", at=at)
    )


def of(lease_id: str, project: str, *, gpu_count: int = 1) -> HoldRequest:
    return HoldRequest(lease_id, ACME, "H100", gpu_count, 0, f"wl_{lease_id}", project=project)
