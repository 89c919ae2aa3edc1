"""What enforcement does when placement binds or ends a lease."""

from collections.abc import Mapping

from chassis.consumer import Incoming, Reaction
from enforcement.application import Enforcement


def reactions(enforcement: Enforcement) -> Mapping[str, Reaction]:
    def raise_guard(bound: Incoming, at: int) -> None:
        enforcement.raise_guard(
            bound.aggregate_id,
            tenant_id=bound.tenant_id,
            correlation_id=bound.correlation_id,
            node_id=bound.data["node_id"],
            workload_id=bound.data["workload_id"],
            slots=bound.data["slots"],
            at=at,
        )

    def lower_guard(ended: Incoming, at: int) -> None:
        enforcement.lower_guard(ended.aggregate_id, at=at)

    return {"placement.lease.bound": raise_guard, "placement.lease.ended": lower_guard}
