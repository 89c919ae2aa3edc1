"""Enforcement as a process."""

from chassis.edge import Edge
from chassis.serve import Part, run
from chassis.settings import ServiceSettings
from enforcement.api import EnforcementService
from enforcement.application import Enforcement
from enforcement.reactions import reactions
from leasehold.enforcement.v1.enforcement_service_pb2_grpc import (
    add_EnforcementServiceServicer_to_server,
)


def assemble(enforcement: Enforcement, settings: ServiceSettings, edge: Edge) -> Part:
    return Part(
        servicers=[
            (add_EnforcementServiceServicer_to_server, EnforcementService(enforcement, edge))
        ],
        sources=frozenset({"placement"}),
        reactions=reactions(enforcement),
    )


if __name__ == "__main__":
    run(Enforcement, ServiceSettings, assemble)
