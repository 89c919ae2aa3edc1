"""Proofs of bills: signed heads, keys, and what shows that an invoice is in the log."""

import orjson
from google.protobuf.descriptor import MethodDescriptor
from starlette.responses import Response

from gateway.http.operations import JSON, Ask, Operation, asking, json_response
from gateway.http.queries import Query
from gateway.http.shapes import json_of
from leasehold.billing.v1 import proof_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["ProofService"]

_NUMBER = r"0|[1-9][0-9]{0,15}"
_SIZE = Query("size", _NUMBER, "how many events the signed head covers; the newest if not given")
_AFTER = Query("after", _NUMBER, "next_after of the page before")
_PAGE = Query("page_token", r"[0-9]{1,6}\.[0-9]{1,18}", "next_page_token of the page before")
_FIRST = Query("first", _NUMBER, "how many events the earlier head covers")
_SECOND = Query("second", _NUMBER, "how many events the later head covers")


def _rpc(name: str) -> MethodDescriptor:
    return _SERVICE.methods_by_name[name]


def _number(ask: Ask, name: str) -> int:
    return int(ask.query.get(name, "0"))


async def _invoice_proof(ask: Ask) -> Response:
    """The invoice inside is JSON already, of fields that only its event knows."""
    request = pb.GetInvoiceProofRequest(
        invoice_id=ask.path["invoice_id"],
        size=_number(ask, "size"),
        page_token=ask.query.get("page_token", ""),
    )
    found = json_of(await ask.call(_rpc("GetInvoiceProof"), request))
    return json_response({**found, "invoice": orjson.loads(found["invoice"])})


def operations() -> tuple[Operation, ...]:
    return (
        Operation(
            method="GET",
            path="/v1/invoices/{invoice_id}/proof",
            summary="Proves an invoice: its events, their paths to a signed head, and the keys.",
            handle=_invoice_proof,
            rpc=_rpc("GetInvoiceProof"),
            query=(_SIZE, _PAGE),
            answers={JSON: {"type": "object"}},
        ),
        asking(
            "GET",
            "/v1/proofs/head",
            "Shows the newest signed head of the ledger, or the one of a size.",
            _rpc("GetSignedHead"),
            lambda ask: pb.GetSignedHeadRequest(size=_number(ask, "size")),
            answer="head",
            query=(_SIZE,),
        ),
        asking(
            "GET",
            "/v1/proofs/heads",
            "Lists the signed heads of the ledger.",
            _rpc("ListSignedHeads"),
            lambda ask: pb.ListSignedHeadsRequest(after=_number(ask, "after")),
            query=(_AFTER,),
        ),
        asking(
            "GET",
            "/v1/proofs/consistency",
            "Shows that the ledger of one head begins with that of an earlier one.",
            _rpc("GetConsistencyProof"),
            lambda ask: pb.GetConsistencyProofRequest(
                first=_number(ask, "first"), second=_number(ask, "second")
            ),
            query=(_FIRST, _SECOND),
        ),
        asking(
            "GET",
            "/v1/proofs/keys",
            "Lists the public keys that sign heads, each announced by the one before.",
            _rpc("GetPublicKeys"),
            lambda ask: pb.GetPublicKeysRequest(),
        ),
        asking(
            "POST",
            "/v1/proofs/keys",
            "Makes a new key sign heads, announced by the one in force.",
            _rpc("RotateKey"),
            lambda ask: pb.RotateKeyRequest(),
            answer="key",
            status=201,
        ),
    )
