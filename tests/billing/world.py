"""A billing service in memory, and the facts of the other services told to it in plain words."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from billing.application import Billing
from billing.domain.meter import Activation
from billing.money import HOUR_US, NANOS, Rate
from billing.policy import HoldAnswer, HoldRequest, Price, Slice, Verdict
from chassis.events import Cause
from chassis.memory import Direct, MemoryLog

T = TypeVar("T")

SECOND = 1_000_000
NOON = 1_767_268_800_000_000
ACME = "ten_acme"
LEASE = "lse_1"
NODE = "nod_1"
TOKEN = 7
H100 = Rate(2_490_000_000, HOUR_US)  # 2.49 an hour


class World:
    """Tells ``billing`` what happened at ``now``; time moves only by ``wait``."""

    def __init__(self, *, funds: int = 1_000 * NANOS, rate: Rate = H100) -> None:
        self.log = MemoryLog()
        self.billing = Billing(self.log)
        self.now = NOON
        self._run = Direct(self.billing, self.log)
        self.tell(lambda at: self.billing.publish_price(price(rate), at=at))
        self.tell(lambda at: self.billing.open_account(ACME, at=at))
        if funds:
            self.top_up(funds)

    def tell(self, command: Callable[[int], T], cause: Cause | None = None) -> T:
        self.now += 1
        return self._run(lambda: command(self.now), cause or Cause(actor="svc:test"))

    def wait(self, us: int) -> None:
        self.now += us

    def top_up(self, amount: int, *, reference: str = "", currency: str = "USD") -> dict[str, Any]:
        return self.tell(lambda at: self.billing.top_up(ACME, amount, currency, reference, at=at))

    def place(self, *requests: HoldRequest) -> list[HoldAnswer]:
        return self.tell(lambda at: self.billing.place_holds(requests, at=at))

    def released(self, *lease_ids: str, cause: str = "RELEASED") -> None:
        self.tell(lambda at: self.billing.release_holds(lease_ids, cause, at=at))

    def bound(self, request: HoldRequest) -> None:
        self.tell(lambda at: self.billing.attach_hold(request, at=at))

    def activated(self, lease_id: str = LEASE, *, gpu_count: int = 1, ago_us: int = 0) -> None:
        self.tell(
            lambda at: self.billing.open_meter(
                activation(lease_id, gpu_count=gpu_count, activated_at=at - ago_us), at=at
            )
        )

    def running(self, lease_id: str = LEASE, *, gpu_count: int = 1, seconds_max: int = 0) -> None:
        """Held, bound and activated now."""
        request = hold(lease_id, gpu_count=gpu_count, seconds_max=seconds_max)
        (answer,) = self.place(request)
        assert answer.refusal is None, answer
        self.bound(request)
        self.activated(lease_id, gpu_count=gpu_count)

    def report(self, *slices: Slice, node_id: str = NODE) -> list[Verdict]:
        return self.tell(lambda at: self.billing.record_slices(node_id, slices, at=at))

    def tick(self) -> None:
        while self.tell(lambda at: self.billing.tick(at=at)):
            pass

    def ended(self, lease_us: int, lease_id: str = LEASE) -> None:
        activated_at = self.cost(lease_id)["activated_at"]
        self.tell(lambda at: self.billing.close_meter(lease_id, activated_at + lease_us, at=at))

    def invoice(self) -> dict[str, Any]:
        return self.tell(lambda at: self.billing.issue_invoice(ACME, at=at))

    # What is known.

    def cost(self, lease_id: str = LEASE) -> dict[str, Any]:
        return self.billing.costs.tenants[ACME][f"mtr_{lease_id}"]

    def balance(self) -> dict[str, Any]:
        return self.billing.balance(ACME)

    def account(self, name: str) -> int:
        return self.billing.ledger.balances.get("USD", {}).get(name, 0)

    def topics(self) -> list[str]:
        return [event.topic.removeprefix("billing.") for event in self.log.events]

    def rebuilt(self) -> Billing:
        fresh = Billing(self.log)
        fresh.catch_up()
        return fresh


def price(rate: Rate = H100, *, currency: str = "USD", effective_at: int = 0) -> Price:
    return Price("H100", rate, currency, effective_at)


def hold(lease_id: str = LEASE, *, gpu_count: int = 1, seconds_max: int = 0) -> HoldRequest:
    return HoldRequest(lease_id, ACME, "H100", gpu_count, seconds_max, f"wl_of_{lease_id}")


def activation(lease_id: str = LEASE, *, gpu_count: int = 1, activated_at: int) -> Activation:
    return Activation(
        lease_id=lease_id,
        tenant_id=ACME,
        correlation_id=f"wl_of_{lease_id}",
        workload_id=f"wl_of_{lease_id}",
        project="research",
        node_id=NODE,
        gpu_model="H100",
        gpu_count=gpu_count,
        fencing_token=TOKEN,
        activated_at=activated_at,
    )


def slice_(
    seq: int, from_us: int, until_us: int, *, lease_id: str = LEASE, token: int = TOKEN
) -> Slice:
    return Slice(lease_id, token, "boot", seq, from_us, until_us)


def slices(*ends_us: int, lease_id: str = LEASE) -> Sequence[Slice]:
    """Slices from 0 that end at the given times, as a node would number them."""
    pairs = enumerate(pairwise((0, *ends_us)), 1)
    return [slice_(seq, *pair, lease_id=lease_id) for seq, pair in pairs]
