"""What nodes say to placement and hear from it. A node is who its certificate says it is."""

import asyncio
import logging

import grpc
from prometheus_client import Gauge

from chassis.callers import caller
from chassis.edge import Edge
from chassis.errors import NotFound, Refused
from chassis.metrics import REGISTRY
from leasehold.placement.v1 import node_service_pb2 as pb
from leasehold.placement.v1 import node_service_pb2_grpc as pb_grpc
from placement import wire
from placement.application import Placement
from placement.bells import Bells, rung
from placement.domain.lease import Lease
from placement.logs import Chunk, LogChunks
from placement.policy import SKEW_US_MAX
from placement.registrar import Registrar
from placement.tokens import token_sha256

# Shorter than the silence after which a node counts as gone.
WAIT_MS_MAX = 20_000
# Left of a call's deadline to answer in.
ANSWER_SECONDS = 1.0

log = logging.getLogger(__name__)

SKEWED = Gauge(
    "placement_nodes_skewed", "Nodes whose wall clock differs from ours", registry=REGISTRY
)


class JoinService(pb_grpc.JoinServiceServicer):
    def __init__(self, placement: Placement, edge: Edge, registrar: Registrar) -> None:
        self._placement = placement
        self._edge = edge
        self._registrar = registrar

    async def JoinNode(
        self, request: pb.JoinNodeRequest, context: grpc.aio.ServicerContext
    ) -> pb.JoinNodeResponse:
        # All that can be wrong with the request comes first: a token is used up only by a join.
        key_sha256 = self._registrar.key_sha256(request.certificate_request)
        evidence, digest = wire.evidence(request, key_sha256), token_sha256(request.token)
        joined = await self._edge.act(lambda at: self._placement.join(digest, evidence, at=at))
        if joined.quarantine is not None:
            raise Refused("the node is in quarantine", code=joined.quarantine.value)
        log.info("node joined", extra={"node_id": joined.node_id, "gpus": len(evidence.gpus)})
        return pb.JoinNodeResponse(
            node_id=joined.node_id,
            certificate_chain=self._registrar.sign(joined.node_id, request.certificate_request),
            trust_bundle=self._registrar.trust_bundle,
        )


class NodeService(pb_grpc.NodeServiceServicer):
    def __init__(
        self,
        placement: Placement,
        edge: Edge,
        *,
        registrar: Registrar,
        logs: LogChunks,
        bells: Bells,
    ) -> None:
        self._placement = placement
        self._edge = edge
        self._registrar = registrar
        self._logs = logs
        self._bells = bells
        self._skewed: set[str] = set()

    async def RenewCertificate(
        self, request: pb.RenewCertificateRequest, context: grpc.aio.ServicerContext
    ) -> pb.RenewCertificateResponse:
        node_id = caller(context).name
        await self._edge.query(lambda: self._placement.require_member(node_id))
        return pb.RenewCertificateResponse(
            certificate_chain=self._registrar.sign(node_id, request.certificate_request),
            trust_bundle=self._registrar.trust_bundle,
        )

    async def SyncNode(
        self, request: pb.SyncNodeRequest, context: grpc.aio.ServicerContext
    ) -> pb.SyncNodeResponse:
        node_id, statuses = caller(context).name, wire.run_statuses(request)
        self._note_skew(node_id, request.wall_at)

        def sync(at: int) -> pb.SyncNodeResponse:
            orders = self._placement.sync(
                node_id,
                boot_id=request.boot_id,
                statuses=statuses,
                revision=request.revision,
                at=at,
            )
            return wire.sync_response(orders)

        with self._bells.listening(f"node/{node_id}") as news:
            answer = await self._edge.command(context, request, pb.SyncNodeResponse, sync)
            if answer.settled or answer.revision != request.revision:
                return answer
            await rung(news, self._patience(request, context))
        # Asked anew even if nothing rang: the time that is left runs from the answer.
        return await self._edge.act(
            lambda at: wire.sync_response(
                self._placement.attend(node_id, revision=request.revision, at=at)
            )
        )

    async def AppendLogs(
        self, request: pb.AppendLogsRequest, context: grpc.aio.ServicerContext
    ) -> pb.AppendLogsResponse:
        node_id = caller(context).name
        lease_ids = {chunk.lease_id for chunk in request.chunks}
        await self._edge.query(lambda: self._require_own(node_id, lease_ids))
        chunks = [Chunk(chunk.lease_id, chunk.offset, chunk.data) for chunk in request.chunks]
        await asyncio.to_thread(self._logs.append, chunks)
        for lease_id in lease_ids:
            self._bells.ring(f"logs/{lease_id}")
        return pb.AppendLogsResponse()

    def _require_own(self, node_id: str, lease_ids: set[str]) -> None:
        for lease_id in lease_ids:
            lease = self._placement.find(Lease, lease_id)
            if lease is None or lease.node_id != node_id:
                raise NotFound(f"no lease {lease_id!r} on this node", code="LEASE_NOT_FOUND")

    def _patience(self, request: pb.SyncNodeRequest, context: grpc.aio.ServicerContext) -> float:
        wished = min(request.wait_ms, WAIT_MS_MAX) / 1000
        return min(wished, context.time_remaining() - ANSWER_SECONDS)

    def _note_skew(self, node_id: str, wall_at: int) -> None:
        """Flagged for people; nothing is ever computed from a node's wall clock."""
        skew_us = wall_at - self._edge.now() if wall_at else 0
        if abs(skew_us) <= SKEW_US_MAX:
            self._skewed.discard(node_id)
        elif node_id not in self._skewed:
            self._skewed.add(node_id)
            log.warning("a node's clock is off", extra={"node_id": node_id, "skew_us": skew_us})
        SKEWED.set(len(self._skewed))
