"""What a machine at a provider costs us, and which node runs on it.

A meter's accrued money is always the split of its cost at ``accrued_us``, rounded once; what an
accrual posts is the difference to what was posted before.
"""

from __future__ import annotations

from collections.abc import Sequence

from billing import postings
from billing.postings import Posting
from billing.provider_cost import Machine, Split, Use, split
from chassis.aggregates import Aggregate, FirstEvent

WARM_POOL = "expense:warm_pool"


def provider_meter_id(instance_id: str) -> str:
    return f"prv_{instance_id}"


def orphan_meter_id(source_id: str, provider_id: str, found_at: int) -> str:
    return f"prv_{source_id}_{provider_id}_{found_at}"


def expense(source_id: str, sku: str) -> str:
    return f"expense:provider:{source_id}:{sku}"


def leak(source_id: str) -> str:
    return f"expense:leak:{source_id}"


def accrued(source_id: str) -> str:
    return f"liability:provider_accrued:{source_id}"


class ProviderMeter(Aggregate):
    TOPIC = "billing.provider_meter"

    def __init__(
        self,
        kind: str,
        source_id: str,
        instance_id: str,
        provider_id: str,
        sku: str,
        gpu_count: int,
        price_nanos_per_hour: int,
        currency: str,
        started_at: int,
    ) -> None:
        self.kind = kind
        self.source_id = source_id
        self.instance_id = instance_id
        self.provider_id = provider_id
        self.sku = sku
        self.gpu_count = gpu_count
        self.price_nanos_per_hour = price_nanos_per_hour
        self.currency = currency
        self.started_at = started_at
        self.ended_at = 0
        self.terminating = False
        self.accrued_us = 0
        self.leased_nanos = 0
        self.idle_nanos = 0
        self.leak_nanos = 0

    class Opened(FirstEvent):
        TOPIC = "billing.provider_meter.opened"
        kind: str
        source_id: str
        instance_id: str
        provider_id: str
        sku: str
        gpu_count: int
        price_nanos_per_hour: int
        currency: str
        started_at: int

    @classmethod
    def open(cls, meter_id: str, machine: Machine, *, at: int) -> ProviderMeter:
        return cls._create(
            cls.Opened,
            id=meter_id,
            kind=str(machine.kind),
            source_id=machine.source_id,
            instance_id=machine.instance_id,
            provider_id=machine.provider_id,
            sku=machine.sku,
            gpu_count=machine.gpu_count,
            price_nanos_per_hour=machine.price_nanos_per_hour,
            currency=machine.currency,
            started_at=machine.started_at,
            timestamp=at,
        )

    @property
    def machine(self) -> Machine:
        names = Machine.__slots__
        return Machine(**{name: getattr(self, name) for name in names})

    def accrue(self, uses: Sequence[Use], *, doubted: bool = False, at: int) -> None:
        """Bring the accrued cost to now, never back; asking twice changes nothing.

        If it was ``doubted`` it is written down that it was looked at, also if nothing moved.
        """
        until_us = max(self.accrued_us, self.machine.present_us(at))
        self._bring(uses, until_us, doubted=doubted, at=at)

    def _bring(self, uses: Sequence[Use], until_us: int, *, doubted: bool = False, at: int) -> None:
        now = split(self.machine, uses, self.started_at + until_us)
        moved = (
            now.leased - self.leased_nanos,
            now.idle - self.idle_nanos,
            now.leak - self.leak_nanos,
        )
        if until_us == self.accrued_us and not (doubted or any(moved)):
            return
        self._post(now, moved, until_us, at=at)

    def _post(self, now: Split, moved: tuple[int, int, int], until_us: int, *, at: int) -> None:
        leased, idle, leaked = moved
        self.trigger_event(
            self.Accrued,
            from_us=self.accrued_us,
            until_us=until_us,
            leased_gpu_us=now.leased_gpu_us,
            leased_nanos=leased,
            idle_nanos=idle,
            leak_nanos=leaked,
            currency=self.currency,
            postings=postings.balanced(
                (expense(self.source_id, self.sku), leased),
                (WARM_POOL, idle),
                (leak(self.source_id), leaked),
                (accrued(self.source_id), -sum(moved)),
            ),
            timestamp=at,
        )

    class Accrued(Aggregate.Event):
        TOPIC = "billing.provider_meter.accrued"
        from_us: int
        until_us: int
        leased_gpu_us: int
        leased_nanos: int
        idle_nanos: int
        leak_nanos: int
        currency: str
        postings: list[Posting]

        def apply(self, meter: ProviderMeter) -> None:
            meter.accrued_us = self.until_us
            meter.leased_nanos += self.leased_nanos
            meter.idle_nanos += self.idle_nanos
            meter.leak_nanos += self.leak_nanos

    def note_termination(self, cause: str, *, at: int) -> None:
        if not (self.terminating or self.ended_at):
            self.trigger_event(self.TerminationRequested, cause=cause, timestamp=at)

    class TerminationRequested(Aggregate.Event):
        TOPIC = "billing.provider_meter.termination_requested"
        cause: str

        def apply(self, meter: ProviderMeter) -> None:
            meter.terminating = True

    def close(self, cause: str, uses: Sequence[Use], ended_at: int, *, at: int) -> None:
        """Its provider no longer lists it: from now on its cost is that of its whole time.

        What was accrued beyond its end before the end was heard of is taken back.
        """
        if self.ended_at:
            return
        end = max(ended_at, self.started_at)
        self._bring(uses, end - self.started_at, at=at)
        self.trigger_event(
            self.Closed,
            cause=cause,
            ended_at=end,
            amount_nanos=self.leased_nanos + self.idle_nanos + self.leak_nanos,
            timestamp=at,
        )

    class Closed(Aggregate.Event):
        TOPIC = "billing.provider_meter.closed"
        cause: str
        ended_at: int
        amount_nanos: int

        def apply(self, meter: ProviderMeter) -> None:
            meter.ended_at = self.ended_at


class ProviderNode(Aggregate):
    """Which instance a node runs on; said once, when it was invited."""

    TOPIC = "billing.provider_node"

    def __init__(self, node_id: str, instance_id: str) -> None:
        self.node_id = node_id
        self.instance_id = instance_id

    class Linked(FirstEvent):
        TOPIC = "billing.provider_node.linked"
        node_id: str
        instance_id: str

    @classmethod
    def link(cls, node_id: str, instance_id: str, *, at: int) -> ProviderNode:
        return cls._create(
            cls.Linked,
            id=f"prn_{node_id}",
            node_id=node_id,
            instance_id=instance_id,
            timestamp=at,
        )
