"""A billing service in memory that sells more than whole GPUs on demand."""

from dataclasses import replace
from typing import Any

from billing.domain import Meter
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import Price
from chassis import canonical
from chassis.events import Recorded
from tests.billing.world import ACME, H100, LEASE, SECOND, World, activation


class Market(World):
    """A world in which more is sold than whole GPUs on demand."""

    def publish(self, rate: Rate = H100, **kind: Any) -> Price:
        kind.setdefault("effective_at", 0)
        offered = Price("H100", rate, "USD", **kind)
        return self.tell(lambda at: self.billing.publish_price(offered, at=at))

    def begin(self, lease_id: str = LEASE, *, gpu_count: int = 1, **kind: Any) -> None:
        def run(at: int) -> None:
            facts = activation(lease_id, gpu_count=gpu_count, activated_at=at)
            self.billing.open_meter(replace(facts, **kind), at=at)

        self.tell(run)

    def preempted(self, lease_us: int, lease_id: str = LEASE) -> None:
        ended_at = self.cost(lease_id)["activated_at"] + lease_us
        self.tell(lambda at: self.billing.close_meter(lease_id, ended_at, cause="PREEMPTED", at=at))

    def throttled(self, step: str = "throttle", lease_id: str = LEASE) -> None:
        since = self.now
        self.tell(lambda at: self.billing.constrain(lease_id, step, since, at=at))

    def facts(self, event: Recorded) -> dict[str, Any]:
        return dict(canonical.loads(event.data))

    def meter(self, lease_id: str = LEASE) -> Meter:
        return self.billing.get(Meter, f"mtr_{lease_id}")

    def checked(self) -> None:
        assert self.rebuilt().state() == self.billing.state()
        assert self.billing.ledger.imbalance["USD"] == 0
        income = sum(
            lease["amount_nanos"] for lease in self.billing.costs.tenants["ten_acme"].values()
        )
        assert self.account("income:gpu:H100") == -income


def change_terms(world: Market) -> None:
    """Everything that can change what a lease costs happens to one, and it ends."""
    world.top_up(100 * NANOS)
    world.publish(market="spot", minimum_nanos=NANOS)
    world.begin("lse_terms", market="spot", sla_tier="gold")
    world.publish(Rate(1, 1_000), market="spot", effective_at=world.now + 10 * SECOND)
    world.throttled(lease_id="lse_terms")
    world.wait(HOUR_US)
    world.preempted(HOUR_US // 2, "lse_terms")


def commit_and_exchange(world: Market) -> None:
    """An hour of a commitment passes, and a payment comes in euros."""
    start = world.now - world.now % HOUR_US + HOUR_US
    term, billing = (start, start + HOUR_US), world.billing
    world.tell(lambda at: billing.open_commitment("cmt_0", ACME, "H100", 1, H100, term, at=at))
    world.wait(2 * HOUR_US)
    world.tell(lambda at: billing.settle_commitments(at=at))
    euros = {"currency": "EUR", "rate": (11, 10), "source": "ECB", "reference": "pay_eur"}
    world.tell(
        lambda at: billing.exchange(ACME, NANOS, **euros, quoted_at=at, at=at)  # type: ignore[arg-type]
    )
