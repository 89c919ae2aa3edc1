"""The aggregator as a process."""

from dataclasses import dataclass

from aggregator.api import AggregatorService
from aggregator.application import Aggregator
from aggregator.providers.simulated_cloud import SimulatedCloud
from aggregator.workflows import Provisioning, onboard_default
from chassis.edge import Edge
from chassis.serve import Part, run
from chassis.settings import ServiceSettings
from leasehold.aggregator.v1.aggregator_service_pb2_grpc import (
    add_AggregatorServiceServicer_to_server,
)


@dataclass(frozen=True, kw_only=True)
class AggregatorSettings(ServiceSettings):
    # Where the simulated provider listens; empty when there is none.
    provider_url: str = ""


def assemble(aggregator: Aggregator, settings: AggregatorSettings, edge: Edge) -> Part:
    provisioning = Provisioning(aggregator, edge, {"simulated": SimulatedCloud})

    async def provision() -> None:
        if settings.provider_url:
            await onboard_default(aggregator, edge, settings.provider_url)
        await provisioning.run()

    return Part(
        servicers=[
            (
                add_AggregatorServiceServicer_to_server,
                AggregatorService(aggregator, edge, provisioning),
            )
        ],
        workflows=[provision],
    )


if __name__ == "__main__":
    run(Aggregator, AggregatorSettings, assemble)
