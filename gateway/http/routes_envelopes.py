"""What a tenant may hold. A change names the version it changes, so that two cannot cross."""

import re
from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from chassis.errors import Refused
from gateway.http import incoming
from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.intents import Name
from gateway.http.operations import JSON, Ask, Operation, json_response
from gateway.http.problems import PreconditionFailed, PreconditionRequired
from gateway.http.shapes import json_of
from leasehold.admission.v1 import admission_service_pb2 as pb
from leasehold.admission.v1.workload_pb2 import Envelope

_GET = rpc("admission", "GetEnvelope")
_SET = rpc("admission", "SetEnvelope")
_TAG = re.compile(r'"([1-9][0-9]{0,17})"', re.ASCII)


class EnvelopeDocument(Body):
    gpu_quota: dict[str, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(max_length=64)
    tier: Name
    traits: list[Name] = Field(default=[], max_length=16)


async def _get(ask: Ask) -> Response:
    answer = await ask.call(_GET, pb.GetEnvelopeRequest(tenant_id=ask.path["tenant_id"]))
    return _shown(answer.envelope)


async def _set(ask: Ask) -> Response:
    expected = _expected(incoming.only(ask.request.headers, "if-match"))
    wanted = Envelope(
        tenant_id=ask.path["tenant_id"],
        gpu_quota=ask.body.gpu_quota,
        tier=ask.body.tier,
        traits=ask.body.traits,
        version=expected,
    )
    try:
        answer = await ask.call(_SET, pb.SetEnvelopeRequest(envelope=wanted))
    except Refused as refused:
        if refused.code != "ENVELOPE_VERSION":
            raise
        raise PreconditionFailed(refused.message, code=refused.code) from None
    return _shown(answer.envelope)


def _shown(envelope: Envelope) -> Response:
    return json_response(json_of(envelope), headers={"ETag": f'"{envelope.version}"'})


def _expected(tag: str) -> int:
    if not tag:
        raise PreconditionRequired("send If-Match with the ETag of the envelope that you change")
    match = _TAG.fullmatch(tag)
    if match is None:
        raise PreconditionFailed("If-Match is no ETag of an envelope")
    return int(match[1])


def operations() -> tuple[Operation, ...]:
    path = "/v1/tenants/{tenant_id}/envelope"
    shape = {JSON: Envelope.DESCRIPTOR}
    return (
        Operation(
            method="GET",
            path=path,
            summary="Shows what a tenant may hold; its ETag is needed to change it.",
            handle=_get,
            rpc=_GET,
            answers=shape,
        ),
        Operation(
            method="PUT",
            path=path,
            summary="Replaces what a tenant may hold, from the next admission on.",
            handle=_set,
            rpc=_SET,
            body=EnvelopeDocument,
            conditional=True,
            answers=shape,
        ),
    )
