"""What admission does about tenants (gateway) and about leases and nodes (placement)."""

from collections.abc import Mapping

from admission.application import Admission
from admission.domain import Workload
from admission.metrics import WORKLOADS
from chassis.consumer import Incoming, Reaction


def reactions(admission: Admission) -> Mapping[str, Reaction]:
    def enroll(tenant: Incoming, at: int) -> None:
        admission.enroll(tenant.tenant_id, at=at)

    def suspend(tenant: Incoming, at: int) -> None:
        admission.suspend(tenant.tenant_id, tenant.data["reason"], at=at)

    def resume(tenant: Incoming, at: int) -> None:
        admission.resume(tenant.tenant_id, at=at)

    def start(lease: Incoming, at: int) -> None:
        admission.start(lease.aggregate_id, lease.data["activated_at"], at=at)

    def end(lease: Incoming, at: int) -> None:
        cause, exit_code = lease.data["cause"], lease.data["exit_code"]
        ended_at = lease.data["ended_at"]
        count(admission.end(lease.aggregate_id, cause, exit_code, ended_at, at=at))

    def lose_hold(lease: Incoming, at: int) -> None:
        admission.lose_hold(lease.aggregate_id, lease.data["cause"], at=at)

    def lose_lease(lease: Incoming, at: int) -> None:
        count(admission.lose_lease(lease.aggregate_id, lease.data["cause"], at=at))

    def consider_everybody(node: Incoming, at: int) -> None:
        admission.wake_everybody()

    def count(ended: Workload | None) -> None:
        if ended:
            WORKLOADS.labels(ended.status.lower()).inc()

    return {
        "gateway.tenant.signed_up": enroll,
        "gateway.tenant.suspended": suspend,
        "gateway.tenant.resumed": resume,
        "placement.lease.activated": start,
        "placement.lease.ended": end,
        "placement.lease.lapsed": lose_hold,
        "placement.lease.bind_refused": lose_lease,
        "placement.node.joined": consider_everybody,
    }
