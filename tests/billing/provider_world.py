"""Machines of a provider told to billing as the aggregator and placement tell it."""

from typing import Any

from billing.provider_cost import DAY_US, Kind, Machine
from billing.provider_reactions import provider_reactions
from chassis.consumer import Incoming
from tests.billing.world import NODE, World

SOURCE = "src_1"
INSTANCE = "ins_1"
VM = "vm_1"
PRICE = 15_920_000_000  # 15.92 an hour, 8 GPUs


class ProviderWorld(World):
    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._reactions = provider_reactions(self.billing, "USD")

    def heard(self, topic: str, aggregate_id: str, happened_at: int = 0, **data: Any) -> None:
        event = Incoming(
            source=topic.partition(".")[0],
            position=1,
            topic=topic,
            aggregate_id=aggregate_id,
            tenant_id="",
            correlation_id="",
            data=data,
            meta={"at": happened_at or self.now},
        )
        self.tell(lambda at: self._reactions[topic](event, at))

    def rented(self, instance_id: str = INSTANCE, *, price: int = PRICE, gpus: int = 8) -> None:
        self.heard(
            "aggregator.instance.created",
            instance_id,
            provider_id=VM if instance_id == INSTANCE else f"vm_{instance_id}",
            found_by_tag=False,
            price_nanos_per_hour=price,
            currency="USD",
            source_id=SOURCE,
            offer="h100x8",
            gpu_model="H100",
            gpu_count=gpus,
        )

    def invited(self, node_id: str = NODE, instance_id: str = INSTANCE) -> None:
        source = instance_id.replace("_", "-", 1)
        self.heard("placement.node.token_issued", node_id, source=source)

    def terminating(self, instance_id: str = INSTANCE) -> None:
        self.heard("aggregator.instance.termination_requested", instance_id, cause="OPERATOR")

    def gone(self, instance_id: str = INSTANCE, *, happened_at: int = 0) -> None:
        self.heard("aggregator.instance.gone", instance_id, happened_at)

    def orphan(self, provider_id: str = "vm_9", *, price: int = PRICE) -> None:
        self.heard(
            "aggregator.source.orphan_found",
            SOURCE,
            provider_id=provider_id,
            kind="ORPHAN_VM",
            tag="leasehold-ins_9",
            price_nanos_per_hour=price,
            currency="USD",
        )

    def cleared(self, provider_id: str = "vm_9") -> None:
        self.heard("aggregator.source.orphan_cleared", SOURCE, provider_id=provider_id)

    def accrue(self) -> None:
        while self.tell(lambda at: self.billing.accrue(at=at)):
            pass

    def bill(self, provider_id: str, from_at: int, until_at: int, nanos: int, name: str) -> bool:
        line = {
            "provider_id": provider_id,
            "from_at": from_at,
            "until_at": until_at,
            "amount_nanos": nanos,
        }
        _, known = self.tell(
            lambda at: self.billing.import_bill(name, SOURCE, "USD", [line], at=at)
        )
        return known

    def machine(self, meter_id: str = f"prv_{INSTANCE}") -> dict[str, Any]:
        return self.billing.machines.rows[meter_id]


def rent_and_settle(world: World) -> None:
    """A machine from its rent to the acceptance of its bill, beside whatever else happens."""
    billing, day = world.billing, world.now // DAY_US
    machine = Machine(
        kind=Kind.INSTANCE,
        source_id=SOURCE,
        instance_id=INSTANCE,
        provider_id=VM,
        sku="H100",
        gpu_count=8,
        price_nanos_per_hour=PRICE,
        currency="USD",
        started_at=world.now,
    )
    line = {
        "provider_id": VM,
        "from_at": day * DAY_US,
        "until_at": (day + 1) * DAY_US,
        "amount_nanos": PRICE,
    }
    world.tell(lambda at: billing.rent_machine(machine, at=at))
    world.tell(lambda at: billing.link_node("nod_rented", INSTANCE, at=at))
    world.wait(2 * DAY_US)
    world.tell(lambda at: billing.note_termination(INSTANCE, "OPERATOR", at=at))
    world.tell(lambda at: billing.return_machine(INSTANCE, "GONE", at, at=at))
    world.tell(lambda at: billing.import_bill("bill-1", SOURCE, "USD", [line], at=at))
    world.tell(lambda at: billing.accept_match(day, SOURCE, VM, at=at))
