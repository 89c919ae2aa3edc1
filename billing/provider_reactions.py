"""What billing does when machines come and go at providers, and when nodes are invited to them."""

from collections.abc import Mapping

from billing.provider_cost import Kind, Machine
from billing.providers import Providers
from chassis.consumer import Incoming, Reaction

_INSTANCE = "ins_"


def provider_reactions(billing: Providers, currency: str) -> Mapping[str, Reaction]:
    """``currency`` is meant where a provider does not name one."""

    def rent(created: Incoming, at: int) -> None:
        facts = created.data
        billing.rent_machine(
            Machine(
                kind=Kind.INSTANCE,
                source_id=facts.get("source_id") or "unknown",
                instance_id=created.aggregate_id,
                provider_id=facts["provider_id"],
                sku=facts.get("gpu_model") or facts.get("offer") or "unknown",
                gpu_count=facts.get("gpu_count", 0),
                price_nanos_per_hour=facts["price_nanos_per_hour"],
                currency=facts["currency"] or currency,
                started_at=created.meta["at"],
            ),
            at=at,
        )

    def note_termination(requested: Incoming, at: int) -> None:
        billing.note_termination(requested.aggregate_id, requested.data["cause"], at=at)

    def give_back(gone: Incoming, at: int) -> None:
        billing.return_machine(gone.aggregate_id, "GONE", gone.meta["at"], at=at)

    def find_orphan(found: Incoming, at: int) -> None:
        facts, seen_at = found.data, found.meta["at"]
        if facts["kind"] == "MISSING_VM":
            billing.lose_machine(found.aggregate_id, facts["provider_id"], seen_at, at=at)
            return
        billing.find_orphan(
            Machine(
                kind=Kind.ORPHAN,
                source_id=found.aggregate_id,
                instance_id="",
                provider_id=facts["provider_id"],
                sku="unknown",
                gpu_count=0,
                price_nanos_per_hour=facts["price_nanos_per_hour"],
                currency=facts.get("currency") or currency,
                started_at=seen_at,
            ),
            at=at,
        )

    def clear_orphan(cleared: Incoming, at: int) -> None:
        facts = cleared.data
        billing.clear_orphan(cleared.aggregate_id, facts["provider_id"], cleared.meta["at"], at=at)

    def link_node(invited: Incoming, at: int) -> None:
        """A node invited in an instance's name runs on it. Names of sources have no underscore."""
        source = invited.data["source"].replace("-", "_", 1)
        if source.startswith(_INSTANCE):
            billing.link_node(invited.aggregate_id, source, at=at)

    return {
        "aggregator.instance.created": rent,
        "aggregator.instance.termination_requested": note_termination,
        "aggregator.instance.gone": give_back,
        "aggregator.source.orphan_found": find_orphan,
        "aggregator.source.orphan_cleared": clear_orphan,
        "placement.node.token_issued": link_node,
    }
