"""What people and services ask of placement."""

import asyncio
from collections.abc import AsyncIterator

import grpc
from prometheus_client import Counter

from chassis import ids
from chassis.callers import caller
from chassis.clock import SECOND
from chassis.edge import Edge
from chassis.errors import Invalid
from chassis.metrics import REGISTRY
from leasehold.placement.v1 import node_pb2
from leasehold.placement.v1 import placement_service_pb2 as pb
from leasehold.placement.v1 import placement_service_pb2_grpc as pb_grpc
from placement import wire
from placement.application import Placement
from placement.bells import Bells, rung
from placement.domain.node import Node
from placement.logs import LogChunks
from placement.tokens import Tokens, token_sha256

TOKEN_SECONDS_MAX = 24 * 3600
# How often a follower looks by itself, and how long it waits for output after a lease's end.
FOLLOW_SECONDS = 2.0

HOLDS = Counter(
    "placement_holds_total",
    "Holds asked for, by what became of them",
    ["outcome"],
    registry=REGISTRY,
)


class PlacementService(pb_grpc.PlacementServiceServicer):
    def __init__(
        self,
        placement: Placement,
        edge: Edge,
        *,
        logs: LogChunks,
        bells: Bells,
        tokens: Tokens,
        token_seconds: int,
    ) -> None:
        self._placement = placement
        self._edge = edge
        self._logs = logs
        self._bells = bells
        self._tokens = tokens
        self._token_seconds = token_seconds

    async def PlaceHolds(
        self, request: pb.PlaceHoldsRequest, context: grpc.aio.ServicerContext
    ) -> pb.PlaceHoldsResponse:
        holds = wire.hold_requests(request)
        answer = await self._edge.command(
            context,
            request,
            pb.PlaceHoldsResponse,
            lambda at: wire.hold_results(self._placement.place_holds(holds, at=at)),
        )
        for result in answer.results:
            HOLDS.labels(outcome_of(result)).inc()
        return answer

    async def ReleaseHolds(
        self, request: pb.ReleaseHoldsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ReleaseHoldsResponse:
        def release(at: int) -> pb.ReleaseHoldsResponse:
            self._placement.release_holds(request.lease_ids, at=at)
            return pb.ReleaseHoldsResponse()

        return await self._edge.command(context, request, pb.ReleaseHoldsResponse, release)

    async def GetLease(
        self, request: pb.GetLeaseRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetLeaseResponse:
        tenant_id = caller(context).scope("")
        return pb.GetLeaseResponse(
            lease=await self._edge.query(
                lambda: wire.lease(self._placement.lease(request.lease_id, tenant_id))
            )
        )

    async def ListLeases(
        self, request: pb.ListLeasesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListLeasesResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        before, size = wire.page(request)

        def ask() -> pb.ListLeasesResponse:
            leases, bottom = self._placement.leases(tenant_id, before, size)
            return pb.ListLeasesResponse(
                leases=[wire.lease(lease) for lease in leases],
                next_page_token=str(bottom) if bottom else "",
            )

        return await self._edge.query(ask)

    async def ListNodes(
        self, request: pb.ListNodesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListNodesResponse:
        placement = self._placement

        def ask() -> pb.ListNodesResponse:
            return pb.ListNodesResponse(nodes=[shown(node) for node in placement.all_nodes()])

        def shown(node: Node) -> node_pb2.Node:
            return wire.node(
                node,
                silent=node.id in placement.presence.silent,
                gpus_free=placement.slots.free_count(node.id),
                seen_at=placement.presence.seen_at.get(node.id, 0),
            )

        return await self._edge.query(ask)

    async def IssueJoinToken(
        self, request: pb.IssueJoinTokenRequest, context: grpc.aio.ServicerContext
    ) -> pb.IssueJoinTokenResponse:
        source, seconds = wire.source(request), request.seconds_valid or self._token_seconds
        if not 1 <= seconds <= TOKEN_SECONDS_MAX:
            raise Invalid(
                f"a token is valid for 1 to {TOKEN_SECONDS_MAX} seconds",
                code="SECONDS_VALID",
                field="seconds_valid",
            )
        node_id = request.node_id or ids.new("nod")

        def invite(at: int) -> pb.IssueJoinTokenResponse:
            until = at + seconds * SECOND
            digest = token_sha256(self._tokens.mint(node_id, until))
            if request.node_id:
                self._placement.invite_again(node_id, digest, expires_at=until, at=at)
            else:
                self._placement.invite(node_id, digest, source=source, expires_at=until, at=at)
            return pb.IssueJoinTokenResponse(node_id=node_id, expires_at=until)

        answer = await self._edge.command(context, request, pb.IssueJoinTokenResponse, invite)
        # Added after the answer was stored, so that no table holds a token.
        answer.token = self._tokens.mint(answer.node_id, answer.expires_at)
        return answer

    async def ReadLogs(
        self, request: pb.ReadLogsRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.ReadLogsResponse]:
        tenant_id, lease_id = caller(context).scope(""), request.lease_id
        if request.offset < 0:
            raise Invalid("offset must not be negative", code="OFFSET", field="offset")
        offset = request.offset
        await self._is_over(lease_id, tenant_id)
        with self._bells.listening(f"logs/{lease_id}") as news:
            while True:
                news.clear()
                chunk = await asyncio.to_thread(self._logs.read, lease_id, offset)
                if chunk.data:
                    offset = chunk.offset + len(chunk.data)
                    yield pb.ReadLogsResponse(offset=chunk.offset, data=chunk.data)
                    continue
                if not request.follow:
                    return
                # The last output may come after the news of the end.
                over = await self._is_over(lease_id, tenant_id)
                if not await rung(news, FOLLOW_SECONDS) and over:
                    return

    async def _is_over(self, lease_id: str, tenant_id: str) -> bool:
        """Whether a lease is past; NotFound if it is not the tenant's."""
        return await self._edge.query(lambda: self._placement.lease(lease_id, tenant_id).is_over)


def outcome_of(result: pb.HoldResult) -> str:
    if not result.refusal:
        return "placed"
    return pb.HoldRefusal.Name(result.refusal).removeprefix("HOLD_REFUSAL_").lower()
