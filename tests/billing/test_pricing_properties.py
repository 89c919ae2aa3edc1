"""Whatever is sold, published, reported, slowed down or cut short: a lease costs its terms.

The expected money is computed here from what was told, by an integral over fractions; billing's
own rating has no part in it.
"""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from billing.domain import Meter
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import Price
from billing.rating import Tier
from billing.shares import SharesOverOne
from chassis import canonical
from tests.billing.market import Market
from tests.billing.world import SECOND, slice_

SLOWED = {"": Fraction(1), "silver": Fraction(1, 2), "gold": Fraction(1, 4)}
rates = st.builds(
    Rate, st.integers(1, 5 * NANOS), st.sampled_from([HOUR_US, 7 * HOUR_US, 10**9 + 7])
)
tiers = st.lists(st.builds(Tier, st.integers(1, HOUR_US), rates), max_size=2).map(
    lambda found: tuple(sorted({tier.from_gpu_us: tier for tier in found}.values(), key=_start))
)


def _start(tier: Tier) -> int:
    return tier.from_gpu_us


class Rated(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.leases: dict[str, dict[str, Any]] = {}
        self.spot: list[Price] = []
        self.checked = 0

    @initialize(rate=rates, more=tiers, minimum=st.sampled_from([0, NANOS // 100]))
    def begin(self, rate: Rate, more: tuple[Tier, ...], minimum: int) -> None:
        self.world = Market(funds=5 * NANOS)
        self.fixed = self.world.publish(rate, tiers=more, minimum_nanos=minimum)
        self.spot.append(self.world.publish(rate, tiers=more, market="spot"))

    @rule(us=st.integers(1, HOUR_US))
    def wait(self, us: int) -> None:
        self.world.wait(us)

    @rule(rate=rates, more=tiers, ahead=st.integers(2, HOUR_US), soon=st.booleans())
    def publish(self, rate: Rate, more: tuple[Tier, ...], ahead: int, soon: bool) -> None:
        """A spot price that begins soon or later; reports may run ahead of it a little."""
        at = self.world.now + (ahead % (2 * SECOND) + 2 if soon else ahead)
        self.spot.append(self.world.publish(rate, tiers=more, market="spot", effective_at=at))

    @rule(
        gpus=st.integers(1, 2),
        part=st.sampled_from([(1, 1), (1, 7), (3, 7), (1, 2)]),
        first=st.integers(0, 2),
        market=st.sampled_from(["on_demand", "spot"]),
        sla_tier=st.sampled_from(sorted(SLOWED)),
    )
    def start(
        self, gpus: int, part: tuple[int, int], first: int, market: str, sla_tier: str
    ) -> None:
        lease_id, share = f"lse_{len(self.leases)}", Fraction(*part)
        slots = tuple(range(first, first + gpus))
        free = all(self.claimed(slot, self.world.now + 1) + share <= 1 for slot in slots)
        facts = {"market": market, "sla_tier": sla_tier, "share": share, "slots": slots}
        if not free:
            with pytest.raises(SharesOverOne):
                self.world.begin(lease_id, gpu_count=gpus, **facts)
            return
        self.world.begin(lease_id, gpu_count=gpus, **facts)
        began = self.world.cost(lease_id)["activated_at"]
        self.leases[lease_id] = facts | {"began": began, "gpus": gpus, "slow": [], "cut": [0]}

    def claimed(self, slot: int, at: int) -> Fraction:
        held = (
            lease["share"]
            for lease in self.leases.values()
            if slot in lease["slots"] and at < lease.get("ended", at + 1)
        )
        return sum(held, Fraction(0))

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        """Slices up to a little ahead of now, each told twice."""
        lease_id = data.draw(st.sampled_from(self.running()))
        lease, passed = self.leases[lease_id], self.passed(lease_id) + SECOND
        for _ in range(data.draw(st.integers(1, 3))):
            since = lease["cut"][-1]
            if since < passed:
                lease["cut"].append(data.draw(st.integers(since + 1, passed)))
                number = len(lease["cut"]) - 1
                told = slice_(number, since, lease["cut"][-1], lease_id=lease_id)
                self.world.report(told)
                self.world.report(told)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def slow(self, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from(self.running()))
        slow = self.leases[lease_id]["slow"]
        slow.append(self.passed(lease_id))
        self.world.throttled("throttle" if len(slow) % 2 else "", lease_id)

    @rule()
    def tick(self) -> None:
        self.world.tick()

    @precondition(lambda self: self.running())
    @rule(data=st.data(), preempted=st.booleans())
    def end(self, data: st.DataObject, preempted: bool) -> None:
        """Not before it was slowed: placement says both, in their order."""
        lease_id = data.draw(st.sampled_from(self.running()))
        lease = self.leases[lease_id]
        length = data.draw(st.integers(max([0, *lease["slow"]]), self.passed(lease_id)))
        lease["ended"] = lease["began"] + length
        lease["preempted"] = preempted
        (self.world.preempted if preempted else self.world.ended)(length, lease_id)

    def running(self) -> list[str]:
        return [lease_id for lease_id, lease in self.leases.items() if "ended" not in lease]

    def passed(self, lease_id: str) -> int:
        return int(self.world.now - self.leases[lease_id]["began"])

    @invariant()
    def everything_balances(self) -> None:
        new, self.checked = self.world.log.events[self.checked :], len(self.world.log.events)
        for event in new:
            postings = canonical.loads(event.data).get("postings", [])
            assert sum(posting["amount_nanos"] for posting in postings) == 0
        balance = self.world.balance()
        assert balance["available"] >= 0
        for name, amount in self.world.billing.ledger.balances.get("USD", {}).items():
            assert amount < 0 if name.startswith("liability:hold:") else True

    @invariant()
    def an_ended_lease_costs_its_terms(self) -> None:
        for lease_id, lease in self.leases.items():
            if "ended" in lease and not lease.get("right"):
                meter = self.meter(lease_id)
                assert meter.billed_us == lease["ended"] - lease["began"]
                assert meter.amount_nanos == self.expected(lease)
                minimum = self.fixed.minimum_nanos if lease["market"] == "on_demand" else 0
                assert meter.topped_up_nanos == max(0, minimum - meter.amount_nanos)
                lease["right"] = True

    def meter(self, lease_id: str) -> Meter:
        return self.world.billing.get(Meter, f"mtr_{lease_id}")

    def expected(self, lease: dict[str, Any]) -> int:
        """Rounded once for each price that the lease passed through."""
        length = lease["ended"] - lease["began"]
        prices = [(0, self.fixed)]
        if lease["market"] == "spot":
            prices = self.passed_through(lease["began"], length)
        ends = [start for start, _ in prices[1:]] + [length]
        return sum(
            round(self.integral(lease, price, start, end))
            for (start, price), end in zip(prices, ends, strict=True)
        )

    def passed_through(self, began: int, length: int) -> list[tuple[int, Price]]:
        def in_force(at: int) -> Price:
            begun = [price for price in self.spot if price.effective_at <= at]
            return max(begun, key=lambda price: (price.effective_at, price.version))

        edges = sorted({price.effective_at - began for price in self.spot})
        inside = [edge for edge in edges if 0 < edge < length]
        return [(0, in_force(began)), *((edge, in_force(began + edge)) for edge in inside)]

    def integral(self, lease: dict[str, Any], price: Price, start: int, end: int) -> Fraction:
        gpus, length = lease["gpus"], lease["ended"] - lease["began"]
        slow = [*lease["slow"], length] if len(lease["slow"]) % 2 else lease["slow"]
        windows = [(*pair, SLOWED[lease["sla_tier"]]) for pair in zip(slow[::2], slow[1::2])]  # noqa: B905
        if lease["preempted"]:
            windows.append((max(0, length - 60 * SECOND), length, Fraction(0)))
        starts = [Fraction(0), *(Fraction(tier.from_gpu_us, gpus) for tier in price.tiers)]
        edges = {Fraction(start), Fraction(end), *(start + one for one in starts)}
        edges |= {Fraction(edge) for window in windows for edge in window[:2]}
        steps = sorted(edge for edge in edges if start <= edge <= end)
        total = Fraction(0)
        for since, until in zip(steps, steps[1:], strict=False):
            tier = sum(one <= since - start for one in starts) - 1
            rate = [price.rate, *(one.rate for one in price.tiers)][tier]
            factors = [factor for low, high, factor in windows if low <= since < high]
            per = Fraction(rate.price_nanos, rate.per_gpu_us) * lease["share"] * gpus
            total += min([Fraction(1), *factors]) * per * (until - since)
        return total

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for lease_id in self.running():
            length = self.passed(lease_id)
            self.leases[lease_id] |= {"ended": self.world.now, "preempted": False}
            self.world.ended(length, lease_id)
        self.an_ended_lease_costs_its_terms()
        assert self.world.balance()["held"] == 0
        if self.leases:
            self.world.checked()


Rated.TestCase.settings = settings(
    max_examples=120, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRated = Rated.TestCase
