"""The operator's side: nodes, sources, instances, guards."""

from pydantic import Field

from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.intents import Name
from gateway.http.operations import Operation, asking
from gateway.http.queries import ID_PATTERN
from leasehold.aggregator.v1 import aggregator_service_pb2 as aggregator
from leasehold.enforcement.v1 import enforcement_service_pb2 as enforcement
from leasehold.placement.v1 import placement_service_pb2 as placement


class Invitation(Body):
    source: Name = "local"
    seconds_valid: int = Field(default=0, ge=0, le=24 * 3600)
    # A node that is known already and has to join again.
    node_id: str = Field(default="", pattern=f"^({ID_PATTERN})?$")


class NewSource(Body):
    name: Name
    provider: Name
    endpoint: str = Field(max_length=500, pattern=r"^https?://[!-~]+$")


class NewInstance(Body):
    source_id: str = Field(pattern=f"^{ID_PATTERN}$")
    offer: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


def operations() -> tuple[Operation, ...]:
    return (*_nodes(), *_sources(), *_instances())


def _nodes() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/nodes",
            "Lists the nodes and their GPUs.",
            rpc("placement", "ListNodes"),
            lambda ask: placement.ListNodesRequest(),
        ),
        asking(
            "POST",
            "/v1/nodes/join-tokens",
            "Invites one node; the token works once and for a short while.",
            rpc("placement", "IssueJoinToken"),
            lambda ask: placement.IssueJoinTokenRequest(
                source=ask.body.source,
                seconds_valid=ask.body.seconds_valid,
                node_id=ask.body.node_id,
            ),
            status=201,
            body=Invitation,
        ),
        asking(
            "GET",
            "/v1/guards",
            "Lists the leases that are watched, and the step in force on each.",
            rpc("enforcement", "ListGuards"),
            lambda ask: enforcement.ListGuardsRequest(),
        ),
    )


def _sources() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/sources",
            "Lists the sources of capacity.",
            rpc("aggregator", "ListSources"),
            lambda ask: aggregator.ListSourcesRequest(),
        ),
        asking(
            "POST",
            "/v1/sources",
            "Onboards a source.",
            rpc("aggregator", "OnboardSource"),
            lambda ask: aggregator.OnboardSourceRequest(
                name=ask.body.name, provider=ask.body.provider, endpoint=ask.body.endpoint
            ),
            answer="source",
            status=201,
            body=NewSource,
        ),
        asking(
            "GET",
            "/v1/sources/{source_id}/offers",
            "Lists what a source can sell now.",
            rpc("aggregator", "ListOffers"),
            lambda ask: aggregator.ListOffersRequest(source_id=ask.path["source_id"]),
        ),
        asking(
            "POST",
            "/v1/sources/{source_id}/audit",
            "Compares a source's inventory with ours; reports, and changes nothing.",
            rpc("aggregator", "AuditOrphans"),
            lambda ask: aggregator.AuditOrphansRequest(source_id=ask.path["source_id"]),
        ),
    )


def _instances() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/instances",
            "Lists the instances rented or asked for.",
            rpc("aggregator", "ListInstances"),
            lambda ask: aggregator.ListInstancesRequest(),
        ),
        asking(
            "POST",
            "/v1/instances",
            "Asks for an instance; the call to the provider follows.",
            rpc("aggregator", "RequestInstance"),
            lambda ask: aggregator.RequestInstanceRequest(
                source_id=ask.body.source_id, offer=ask.body.offer
            ),
            answer="instance",
            status=202,
            body=NewInstance,
        ),
        asking(
            "DELETE",
            "/v1/instances/{instance_id}",
            "Gives an instance back; it is costed until its provider no longer lists it.",
            rpc("aggregator", "TerminateInstance"),
            lambda ask: aggregator.TerminateInstanceRequest(instance_id=ask.path["instance_id"]),
            answer="instance",
            status=202,
        ),
    )
