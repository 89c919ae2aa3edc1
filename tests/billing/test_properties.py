"""Whatever happens, in whatever order: the ledger balances and a lease costs its time.

The limit that is kept: prepaid and held money are never below zero. A running lease is paid from
its hold, then from what is prepaid; only what neither covers is owed, and whatever comes in
settles that first.
"""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from billing.domain import Account, Meter
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import Slice, Verdict
from chassis import canonical
from tests.billing.world import ACME, SECOND, World, hold, slice_, slices

rates = st.sampled_from(
    [
        Rate(2_490_000_000, HOUR_US),
        Rate(2_490_000_000, 7 * HOUR_US),
        Rate(1, 3),
        Rate(10**9 + 7, 10**9 + 9),
    ]
)
durations = st.integers(1, 2 * HOUR_US)


class Ledger(RuleBasedStateMachine):
    """Leases begin, are reported well and badly, fall silent, and end."""

    def __init__(self) -> None:
        super().__init__()
        # What each lease's node has cut so far: its slices, and those not yet taken by billing.
        self.cut: dict[str, list[Slice]] = {}
        self.waiting: dict[str, list[Slice]] = {}
        self.ends: dict[str, int] = {}
        self.paid = 0
        self.checked = 0

    @initialize(rate=rates, funds=st.integers(0, 20 * NANOS))
    def begin(self, rate: Rate, funds: int) -> None:
        self.world = World(funds=funds, rate=rate)
        self.paid = funds

    @rule(amount=st.integers(1, 5 * NANOS))
    def top_up(self, amount: int) -> None:
        self.world.top_up(amount)
        self.paid += amount

    @rule(us=durations)
    def wait(self, us: int) -> None:
        self.world.wait(us)

    @rule(
        gpu_count=st.integers(1, 9), seconds_max=st.sampled_from([0, 5, 3600]), bound=st.booleans()
    )
    def start(self, gpu_count: int, seconds_max: int, bound: bool) -> None:
        lease_id = f"lse_{len(self.cut)}"
        request = hold(lease_id, gpu_count=gpu_count, seconds_max=seconds_max)
        self.world.place(request)
        if bound:
            self.world.bound(request)
        self.world.activated(lease_id, gpu_count=gpu_count)
        self.cut[lease_id], self.waiting[lease_id] = [], []

    @precondition(lambda self: self.running())
    @rule(data=st.data(), count=st.integers(1, 3))
    def measure(self, data: st.DataObject, count: int) -> None:
        """The node cuts slices of time that has passed."""
        lease_id = data.draw(st.sampled_from(self.running()))
        for _ in range(count):
            since = self.cut[lease_id][-1].until_us if self.cut[lease_id] else 0
            passed = self.world.now - self.world.cost(lease_id)["activated_at"]
            if passed > since:
                until = data.draw(st.integers(since + 1, passed))
                new = slice_(len(self.cut[lease_id]) + 1, since, until, lease_id=lease_id)
                self.cut[lease_id].append(new)
                self.waiting[lease_id].append(new)

    @precondition(lambda self: any(self.cut.values()))
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        """In any order, with repetitions; what is to be sent again stays."""
        lease_id = data.draw(st.sampled_from([name for name, cut in self.cut.items() if cut]))
        chosen = data.draw(st.lists(st.sampled_from(self.cut[lease_id]), max_size=6))
        for sent, verdict in zip(chosen, self.world.report(*chosen), strict=True):
            if verdict is not Verdict.RETRY and sent in self.waiting[lease_id]:
                self.waiting[lease_id].remove(sent)

    @precondition(lambda self: self.cut)
    @rule(data=st.data())
    def lie(self, data: st.DataObject) -> None:
        """Another node, another token, time that has not passed, an interval turned round."""
        lease_id = data.draw(st.sampled_from(sorted(self.cut)))
        number = len(self.cut[lease_id]) + data.draw(st.integers(5, 9))
        before = self.world.cost(lease_id)["amount_nanos"]
        far = slice_(number, 0, 10**13, lease_id=lease_id, token=data.draw(st.integers(1, 6)))
        self.world.report(far, node_id=data.draw(st.sampled_from(["nod_1", "nod_2"])))
        self.world.report(slice_(-number, 9, 3, lease_id=lease_id))
        assert self.world.cost(lease_id)["amount_nanos"] == before

    @rule()
    def tick(self) -> None:
        self.world.tick()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Also before what was billed or reported, as when placement learns of it late."""
        lease_id = data.draw(st.sampled_from(self.running()))
        passed = self.world.now - self.world.cost(lease_id)["activated_at"]
        self.ends[lease_id] = data.draw(st.integers(0, passed))
        self.world.ended(self.ends[lease_id], lease_id)

    @precondition(lambda self: self.world.billing.uninvoiced.tenants.get(ACME))
    @rule()
    def invoice(self) -> None:
        self.world.invoice()

    def running(self) -> list[str]:
        return [lease_id for lease_id in self.cut if lease_id not in self.ends]

    @invariant()
    def every_event_balances(self) -> None:
        new, self.checked = self.world.log.events[self.checked :], len(self.world.log.events)
        for event in new:
            postings = canonical.loads(event.data).get("postings", [])
            assert sum(posting["amount_nanos"] for posting in postings) == 0
        assert self.world.billing.ledger.imbalance.get("USD", 0) == 0
        assert self.world.account("asset:cash") == self.paid

    @invariant()
    def nothing_is_below_its_limit(self) -> None:
        balance = self.world.balance()
        assert balance["available"] >= 0
        assert balance["owed"] >= 0
        assert min(balance["available"], balance["owed"]) == 0
        for name, amount in self.world.billing.ledger.balances.get("USD", {}).items():
            assert amount < 0 if name.startswith("liability:hold:") else True

    @invariant()
    def the_account_agrees_with_the_ledger(self) -> None:
        account = self.world.billing.find(Account, f"acc_{ACME}")
        assert account is not None
        balance = self.world.balance()
        assert (account.prepaid_nanos, account.owed_nanos) == (
            balance["available"],
            balance["owed"],
        )
        spent = sum(self.meter(lease).amount_nanos for lease in account.holds if lease in self.cut)
        assert balance["held"] == sum(h["fed_nanos"] for h in account.holds.values()) - spent

    @invariant()
    def a_lease_costs_its_time(self) -> None:
        for lease_id in self.cut:
            meter = self.meter(lease_id)
            assert meter.amount_nanos == meter.rate.amount(meter.gpu_count * meter.billed_us)
            assert self.ends.get(lease_id, meter.billed_us) == meter.billed_us
        assert self.world.billing.totals.unaccounted_us == 0

    def meter(self, lease_id: str) -> Meter:
        meter = self.world.billing.find(Meter, f"mtr_{lease_id}")
        assert meter is not None
        return meter

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        for lease_id in self.running():
            passed = world.now - world.cost(lease_id)["activated_at"]
            world.ended(passed, lease_id)
        for waiting in self.waiting.values():
            assert Verdict.RETRY not in world.report(*waiting)
        assert world.balance()["held"] == 0 or world.billing.holds.waiting
        self.what_was_paid_is_what_was_invoiced()
        topics = [event.topic for event in world.log.events]
        assert topics.count("billing.account.exhausted") <= len(self.cut)
        assert world.rebuilt().state() == world.billing.state()

    def what_was_paid_is_what_was_invoiced(self) -> None:
        world = self.world
        if world.billing.uninvoiced.tenants.get(ACME):
            world.invoice()
        total = sum(invoice["total_nanos"] for invoice in world.billing.invoices.of(ACME))
        balance = world.balance()
        left = balance["available"] + balance["held"] - balance["owed"]
        assert self.paid - left == total
        exact = sum(self.meter(lease_id).spent_nanos for lease_id in self.cut)
        assert world.account("income:gpu:H100") == -exact
        assert world.account("equity:rounding:USD") == exact - total


Ledger.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLedger = Ledger.TestCase


@st.composite
def stories(draw: st.DrawFn) -> list[list[tuple[str, Any]]]:
    """Facts by their source; within a source the order is given."""
    payments = [("top_up", amount) for amount in draw(st.lists(st.integers(1, 3 * NANOS)))]
    leases: list[list[tuple[str, Any]]] = []
    for number in range(draw(st.integers(1, 3))):
        lease_id, length = f"lse_{number}", draw(st.integers(0, HOUR_US))
        leases.append([("bound", lease_id), ("activated", lease_id), ("ended", (lease_id, length))])
        ends = sorted(draw(st.sets(st.integers(1, HOUR_US), max_size=4)))
        leases.append([("report", each) for each in slices(*ends, lease_id=lease_id)])
    return [payments, *leases, [("tick", None)] * draw(st.integers(0, 3))]


@settings(max_examples=100, deadline=None)
@given(stories(), st.randoms(use_true_random=False), st.randoms(use_true_random=False))
def test_the_same_facts_in_any_order_give_the_same_balances_and_invoice(
    story: list[list[tuple[str, Any]]], one: Any, other: Any
) -> None:
    first, second = (told(story, order) for order in (one, other))
    assert first.billing.ledger.balances == second.billing.ledger.balances
    assert first.balance() == second.balance()
    assert canonical.dumps(first.invoice()["lines"]) == canonical.dumps(second.invoice()["lines"])


def told(story: list[list[tuple[str, Any]]], order: Any) -> World:
    """The facts told in an order that keeps each source's own; slices are sent until taken."""
    world = World(funds=NANOS)
    began = {f"lse_{number}": world.now + number for number in range(3)}
    # Late enough that everything in the story has passed.
    world.wait(2 * HOUR_US)
    sources = [list(facts) for facts in story if facts]
    while sources:
        source = order.choice(sources)
        kind, fact = source[0]
        if tell(world, kind, fact, began):
            source.pop(0)
        sources = [facts for facts in sources if facts]
    return world


def tell(world: World, kind: str, fact: Any, began: dict[str, int]) -> bool:
    """Whether the fact was taken; a slice may have to be told again."""
    match kind:
        case "top_up":
            world.top_up(fact)
        case "bound":
            world.bound(hold(fact))
        case "activated":
            world.activated(fact, ago_us=world.now + 1 - began[fact])
        case "ended":
            world.ended(fact[1], fact[0])
        case "report":
            return world.report(fact) != [Verdict.RETRY]
        case "tick":
            world.wait(31 * SECOND)
            world.tick()
    return True
