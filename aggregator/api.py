"""The gRPC face of the aggregator. Translates and delegates; decides nothing."""

import grpc

from aggregator import wire
from aggregator.application import Aggregator
from aggregator.domain import Source
from aggregator.providers import ProviderError
from aggregator.workflows import Provisioning
from chassis import ids
from chassis.edge import Edge
from chassis.errors import Unavailable
from leasehold.aggregator.v1 import aggregator_service_pb2 as pb
from leasehold.aggregator.v1 import aggregator_service_pb2_grpc as pb_grpc


class AggregatorService(pb_grpc.AggregatorServiceServicer):
    def __init__(self, aggregator: Aggregator, edge: Edge, provisioning: Provisioning) -> None:
        self._aggregator = aggregator
        self._edge = edge
        self._provisioning = provisioning

    async def OnboardSource(
        self, request: pb.OnboardSourceRequest, context: grpc.aio.ServicerContext
    ) -> pb.OnboardSourceResponse:
        name, provider, endpoint = wire.onboarding(request)
        source_id = ids.new("src")

        def onboard(at: int) -> pb.OnboardSourceResponse:
            source = self._aggregator.onboard(source_id, name, provider, endpoint, at=at)
            return pb.OnboardSourceResponse(source=wire.source(source))

        return await self._edge.command(context, request, pb.OnboardSourceResponse, onboard)

    async def ListSources(
        self, request: pb.ListSourcesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListSourcesResponse:
        sources = await self._edge.query(
            lambda: [wire.source(source) for source in self._aggregator.all_sources()]
        )
        return pb.ListSourcesResponse(sources=sources)

    async def ListOffers(
        self, request: pb.ListOffersRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListOffersResponse:
        source = await self._source(request.source_id)
        try:
            offers = await self._provisioning.provider(source).offers()
        except ProviderError as error:
            raise Unavailable(f"source {source.name} does not answer: {error}") from error
        return pb.ListOffersResponse(offers=[wire.offer(offer) for offer in offers])

    async def RequestInstance(
        self, request: pb.RequestInstanceRequest, context: grpc.aio.ServicerContext
    ) -> pb.RequestInstanceResponse:
        instance_id = ids.new("ins")

        def ask(at: int) -> pb.RequestInstanceResponse:
            instance = self._aggregator.request_instance(
                instance_id, request.source_id, request.offer, at=at
            )
            return pb.RequestInstanceResponse(instance=wire.instance(instance))

        answer = await self._edge.command(context, request, pb.RequestInstanceResponse, ask)
        self._provisioning.nudge()
        return answer

    async def TerminateInstance(
        self, request: pb.TerminateInstanceRequest, context: grpc.aio.ServicerContext
    ) -> pb.TerminateInstanceResponse:
        def terminate(at: int) -> pb.TerminateInstanceResponse:
            instance = self._aggregator.terminate(request.instance_id, "REQUESTED", at=at)
            return pb.TerminateInstanceResponse(instance=wire.instance(instance))

        answer = await self._edge.command(context, request, pb.TerminateInstanceResponse, terminate)
        self._provisioning.nudge()
        return answer

    async def ListInstances(
        self, request: pb.ListInstancesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListInstancesResponse:
        instances = await self._edge.query(
            lambda: [wire.instance(instance) for instance in self._aggregator.all_instances()]
        )
        return pb.ListInstancesResponse(instances=instances)

    async def AuditOrphans(
        self, request: pb.AuditOrphansRequest, context: grpc.aio.ServicerContext
    ) -> pb.AuditOrphansResponse:
        source = await self._source(request.source_id)
        try:
            inventory = await self._provisioning.provider(source).inventory()
        except ProviderError as error:
            raise Unavailable(f"source {source.name} does not answer: {error}") from error

        def audit(at: int) -> pb.AuditOrphansResponse:
            aborted = self._aggregator.no_conclusion(source.id, inventory)
            found = self._aggregator.audit(source.id, inventory, at=at)
            return pb.AuditOrphansResponse(
                orphans=[wire.orphan(orphan) for orphan in found],
                aborted=aborted,
                inventory_size=len(inventory.machines),
            )

        return await self._edge.command(context, request, pb.AuditOrphansResponse, audit)

    async def _source(self, source_id: str) -> Source:
        return await self._edge.query(lambda: self._aggregator.get(Source, source_id))
