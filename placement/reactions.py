"""What placement does when the other services have decided something."""

from collections.abc import Mapping

from chassis.consumer import Incoming, Reaction
from placement.application import Placement
from placement.policy import EndCause, HoldRequest


def reactions(placement: Placement) -> Mapping[str, Reaction]:
    def bind(admitted: Incoming, at: int) -> None:
        intent = admitted.data["intent"]
        job = intent.get("training_job") or {}
        request = HoldRequest(
            lease_id=admitted.data["lease_id"],
            tenant_id=admitted.tenant_id,
            workload_id=admitted.aggregate_id,
            gpu_model=job.get("gpu_model", ""),
            gpu_count=job.get("gpu_count", 0),
            correlation_id=admitted.correlation_id,
        )
        placement.bind(request, intent, at=at)

    def stop(requested: Incoming, at: int) -> None:
        placement.drain(requested.data["lease_id"], EndCause.STOPPED, at=at)

    def stop_for_money(exhausted: Incoming, at: int) -> None:
        placement.drain(exhausted.data["lease_id"], EndCause.BALANCE, at=at)

    def constrain(taken: Incoming, at: int) -> None:
        step, cause = taken.data["step"], taken.data["cause"]
        placement.constrain(guarded_lease(taken), step, cause, at=at)

    def lift(recovered: Incoming, at: int) -> None:
        placement.constrain(guarded_lease(recovered), "", "RECOVERED", at=at)

    return {
        "admission.workload.admitted": bind,
        "admission.workload.stop_requested": stop,
        "billing.account.exhausted": stop_for_money,
        "enforcement.guard.step_taken": constrain,
        "enforcement.guard.recovered": lift,
    }


def guarded_lease(guard: Incoming) -> str:
    """One guard watches one lease, and is named after it."""
    return guard.aggregate_id.removeprefix("grd_")
