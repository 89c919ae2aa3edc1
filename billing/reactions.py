"""What billing does when a tenant signs up, and when placement moves a lease."""

from collections.abc import Mapping

from billing.application import Billing
from billing.domain.meter import Activation
from billing.policy import HoldRequest, Market
from billing.shares import share
from chassis.consumer import Incoming, Reaction


def reactions(billing: Billing) -> Mapping[str, Reaction]:
    def open_account(signed_up: Incoming, at: int) -> None:
        billing.open_account(signed_up.aggregate_id, at=at)

    def attach_hold(bound: Incoming, at: int) -> None:
        billing.attach_hold(
            HoldRequest(
                lease_id=bound.aggregate_id,
                tenant_id=bound.tenant_id,
                gpu_model=bound.data["gpu_model"],
                gpu_count=len(bound.data["slots"]),
                seconds_max=bound.data["seconds_max"],
                correlation_id=bound.correlation_id,
            ),
            at=at,
        )

    def open_meter(activated: Incoming, at: int) -> None:
        facts = activated.data
        billing.open_meter(
            Activation(
                lease_id=activated.aggregate_id,
                tenant_id=activated.tenant_id,
                correlation_id=activated.correlation_id,
                workload_id=facts["workload_id"],
                project=facts["project"],
                node_id=facts["node_id"],
                gpu_model=facts["gpu_model"],
                gpu_count=facts["gpu_count"],
                fencing_token=facts["fencing_token"],
                activated_at=facts["activated_at"],
                slots=tuple(facts.get("slots", ())),
                form=facts.get("form", ""),
                share=share(facts.get("share_n", 0), facts.get("share_d", 0)),
                region=facts.get("region", ""),
                market=facts.get("market") or Market.ON_DEMAND,
                sla_tier=facts.get("sla_tier", ""),
            ),
            at=at,
        )

    def close_meter(ended: Incoming, at: int) -> None:
        billing.close_meter(
            ended.aggregate_id, ended.data["ended_at"], cause=ended.data["cause"], at=at
        )

    def constrain(constrained: Incoming, at: int) -> None:
        billing.constrain(
            constrained.aggregate_id, constrained.data["step"], constrained.meta["at"], at=at
        )

    def release_lapsed(lapsed: Incoming, at: int) -> None:
        billing.release_holds([lapsed.aggregate_id], "LAPSED", at=at)

    def release_refused(refused: Incoming, at: int) -> None:
        billing.release_holds([refused.aggregate_id], "REFUSED", at=at)

    return {
        "gateway.tenant.signed_up": open_account,
        "placement.lease.bound": attach_hold,
        "placement.lease.activated": open_meter,
        "placement.lease.ended": close_meter,
        "placement.lease.constrained": constrain,
        "placement.lease.lapsed": release_lapsed,
        "placement.lease.bind_refused": release_refused,
    }
