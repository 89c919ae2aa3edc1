"""Placement as a process."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chassis.clock import SECOND
from chassis.edge import Edge
from chassis.identity import Identity
from chassis.serve import Part, run
from chassis.settings import PORT, ServiceSettings, limits
from chassis.store import Store
from leasehold.placement.v1.node_service_pb2_grpc import (
    add_JoinServiceServicer_to_server,
    add_NodeServiceServicer_to_server,
)
from leasehold.placement.v1.placement_service_pb2_grpc import (
    add_PlacementServiceServicer_to_server,
)
from placement import gauges, workflows
from placement.api.leases import PlacementService
from placement.api.nodes import JoinService, NodeService
from placement.application import Placement
from placement.bells import Bells
from placement.logs import LogChunks
from placement.policy import Terms
from placement.reactions import reactions
from placement.registrar import Registrar
from placement.tokens import Tokens


@dataclass(frozen=True, kw_only=True)
class PlacementSettings(ServiceSettings):
    join_port: int = field(metadata=PORT)
    node_ca_dir: Path
    hold_seconds: int = field(default=60, metadata=limits(low=1, high=3600))
    lease_term_seconds: int = field(default=600, metadata=limits(low=10, high=86_400))
    join_token_seconds: int = field(default=600, metadata=limits(low=1, high=86_400))
    # GPUs that are not there must not be sold.
    allow_simulated: bool = field(default=True, metadata=limits(unsafe_in_production=bool))

    def problems(self) -> list[str]:
        found = super().problems()
        if not (self.node_ca_dir / "key.pem").is_file():
            found.append(f"LEASEHOLD_NODE_CA_DIR: {self.node_ca_dir} holds no authority")
        if self.join_port and self.join_port in (self.grpc_port, self.metrics_port):
            found.append("LEASEHOLD_JOIN_PORT must differ from the other ports")
        return found


def assemble(placement: Placement, settings: PlacementSettings, edge: Edge) -> Part:
    placement.terms = Terms(
        hold_us=settings.hold_seconds * SECOND, lease_us=settings.lease_term_seconds * SECOND
    )
    placement.allow_simulated = settings.allow_simulated
    loop, bells = asyncio.get_running_loop(), Bells()

    def changed(node_id: str) -> None:
        loop.call_soon_threadsafe(bells.ring, f"node/{node_id}")

    placement.assignments.changed = changed
    gauges.show(placement)
    assert isinstance(placement.log, Store), "a process has a database"
    logs = LogChunks(placement.log.pool)
    registrar = Registrar(settings.node_ca_dir)
    service = PlacementService(
        placement,
        edge,
        logs=logs,
        bells=bells,
        tokens=Tokens(settings.node_ca_dir),
        token_seconds=settings.join_token_seconds,
    )
    nodes = NodeService(placement, edge, registrar=registrar, logs=logs, bells=bells)
    joins = (add_JoinServiceServicer_to_server, JoinService(placement, edge, registrar))
    shown = Identity(settings.identity_dir)
    return Part(
        servicers=[
            (add_PlacementServiceServicer_to_server, service),
            (add_NodeServiceServicer_to_server, nodes),
        ],
        sources=frozenset({"admission", "billing", "enforcement"}),
        reactions=reactions(placement),
        workflows=[
            partial(workflows.keep_time, placement, edge),
            partial(workflows.serve_joins, settings.host, settings.join_port, shown, joins),
        ],
    )


if __name__ == "__main__":
    run(Placement, PlacementSettings, assemble)
