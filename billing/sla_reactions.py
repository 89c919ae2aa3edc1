"""What billing does when enforcement holds a lease back, and when that ends."""

from collections.abc import Mapping

from billing.sla_credits import ServiceCredits
from chassis.consumer import Incoming, Reaction

_GUARD = "grd_"


def sla_reactions(billing: ServiceCredits) -> Mapping[str, Reaction]:
    def begin(taken: Incoming, at: int) -> None:
        billing.impair(
            taken.aggregate_id.removeprefix(_GUARD),
            taken.tenant_id,
            taken.data["step"],
            taken.meta["at"],
            taken.event_id,
            at=at,
        )

    def end(over: Incoming, at: int) -> None:
        lease_id = over.aggregate_id.removeprefix(_GUARD)
        billing.restore(lease_id, over.meta["at"], over.event_id, at=at)

    return {
        "enforcement.guard.step_taken": begin,
        "enforcement.guard.recovered": end,
        "enforcement.guard.lowered": end,
    }
