"""The gRPC face of the proofs. Translates and delegates; decides nothing.

Heads, keys and consistency proofs are everybody's, or they would prove nothing; they are hashes
and signatures. The events of an invoice are its tenant's.
"""

import asyncio

import grpc

from billing import wire_proof as wire
from billing.application import Billing
from billing.proof import gathering
from billing.proof.bundle import invoice_document, subjects
from billing.proof.signing import Signer
from billing.proof.tree import Tree
from chassis import canonical
from chassis.callers import caller
from chassis.edge import Edge
from chassis.errors import Invalid
from chassis.events import Recorded
from chassis.store import Store
from leasehold.billing.v1 import proof_service_pb2 as pb
from leasehold.billing.v1 import proof_service_pb2_grpc as pb_grpc


class ProofService(pb_grpc.ProofServiceServicer):
    def __init__(self, billing: Billing, edge: Edge, signer: Signer) -> None:
        assert isinstance(billing.log, Store)
        self._billing = billing
        self._edge = edge
        self._store = billing.log
        self._signer = signer

    async def GetSignedHead(
        self, request: pb.GetSignedHeadRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetSignedHeadResponse:
        found = await self._signer.head(wire.size(request.size, "size"))
        return pb.GetSignedHeadResponse(head=wire.head(found))

    async def ListSignedHeads(
        self, request: pb.ListSignedHeadsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListSignedHeadsResponse:
        limit = wire.heads_page(request)
        found = await self._signer.heads(request.after, limit)
        return pb.ListSignedHeadsResponse(
            heads=[wire.head(one) for one in found],
            next_after=found[-1].size if len(found) == limit else 0,
        )

    async def GetInvoiceProof(
        self, request: pb.GetInvoiceProofRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetInvoiceProofResponse:
        tenant_id = caller(context).scope("")
        start = wire.page_token(request.page_token)
        size = wire.size(request.size, "size")
        await self._edge.query(lambda: self._billing.invoice(request.invoice_id, tenant_id))
        (row, *_) = await asyncio.to_thread(self._store.history, request.invoice_id)
        issued = canonical.loads(row.data)
        covering = row.position + len(issued["lines"])
        head = await (self._signer.head(size) if size else self._signer.sign(covering))
        tree = await self._signer.tree(head.size)

        def prove() -> tuple[list[pb.ProvenEvent], str]:
            page = gathering.page(self._store, subjects(issued), start, head.size)
            return [_proven(tree, row, head.size) for row in page.rows], page.following

        events, following = await asyncio.to_thread(prove)
        keys = await self._edge.query(lambda: list(self._billing.signed.keys))
        return pb.GetInvoiceProofResponse(
            invoice=canonical.dumps(invoice_document(issued)).decode(),
            head=wire.head(head),
            keys=wire.keys(keys),
            events=events,
            next_page_token=following,
        )

    async def GetConsistencyProof(
        self, request: pb.GetConsistencyProofRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetConsistencyProofResponse:
        first, second = wire.size(request.first, "first"), wire.size(request.second, "second")
        newest = (await self._signer.head(0)).size
        if not first <= second <= newest:
            raise Invalid(
                f"first is at most second, and second at most {newest}", code="SIZE", field="second"
            )
        tree = await self._signer.tree(second)
        path = await asyncio.to_thread(tree.consistency, first, second)
        hashes = [hash_.hex() for hash_ in path]
        return pb.GetConsistencyProofResponse(first=first, second=second, path=hashes)

    async def GetPublicKeys(
        self, request: pb.GetPublicKeysRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetPublicKeysResponse:
        def ask() -> pb.GetPublicKeysResponse:
            signed = self._billing.signed
            return pb.GetPublicKeysResponse(log_id=signed.log_id, keys=wire.keys(signed.keys))

        return await self._edge.query(ask)

    async def RotateKey(
        self, request: pb.RotateKeyRequest, context: grpc.aio.ServicerContext
    ) -> pb.RotateKeyResponse:
        async def announce(public_key: str, signature: str) -> pb.RotateKeyResponse:
            def run(at: int) -> pb.RotateKeyResponse:
                key = self._billing.rotate_key(public_key, signature, at=at)
                return pb.RotateKeyResponse(key=pb.PublicKey(**key.facts()))

            return await self._edge.command(context, request, pb.RotateKeyResponse, run)

        return await self._signer.rotate(announce)


def _proven(tree: Tree, row: Recorded, size: int) -> pb.ProvenEvent:
    return wire.proven(row, tree.inclusion(row.position - 1, size))
