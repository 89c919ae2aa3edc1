"""Tenants, projects and credentials: the gateway's own nouns, asked for like all others."""

import hashlib

from pydantic import Field
from starlette.responses import Response

from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.intents import Name
from gateway.http.operations import JSON, Ask, Operation, asking, json_response
from gateway.http.queries import TENANT
from gateway.http.shapes import json_of
from gateway.policy import REASON_CHARACTERS_MAX, SIGN_UP_RATE
from leasehold.gateway.v1 import gateway_service_pb2 as pb

_SIGN_UP = rpc("gateway", "SignUpTenant")


class SignUp(Body):
    name: Name
    project: Name = "default"


class NewCredential(Body):
    role: str = Field(pattern="^(viewer|user|admin)$")


class NewProject(Body):
    project: Name


class Suspension(Body):
    reason: str = Field(min_length=1, max_length=REASON_CHARACTERS_MAX)


async def _sign_up(ask: Ask) -> Response:
    # Strangers share one identity, so their keys are told apart by where they come from.
    text = f"{ask.address} {ask.key}"
    key = hashlib.sha256(text.encode()).hexdigest() if ask.key else ""
    request = pb.SignUpTenantRequest(name=ask.body.name, project=ask.body.project)
    answer = await ask.services.call(_SIGN_UP, request, None, request_id=ask.request_id, key=key)
    location = f"/v1/tenants/{answer.tenant.tenant_id}"
    return json_response(json_of(answer), 201, {"Location": location})


def operations() -> tuple[Operation, ...]:
    return (*_tenants(), *_belongings())


def _tenants() -> tuple[Operation, ...]:
    return (
        Operation(
            method="POST",
            path="/v1/tenants",
            summary="Signs up a tenant; its secret is shown this once.",
            handle=_sign_up,
            rpc=_SIGN_UP,
            open=True,
            rate=SIGN_UP_RATE,
            body=SignUp,
            status=201,
            answers={JSON: _SIGN_UP.output_type},
        ),
        asking(
            "GET",
            "/v1/tenants/{tenant_id}",
            "Shows a tenant.",
            rpc("gateway", "GetTenant"),
            lambda ask: pb.GetTenantRequest(tenant_id=ask.path["tenant_id"]),
            answer="tenant",
        ),
        asking(
            "POST",
            "/v1/tenants/{tenant_id}/suspend",
            "Suspends a tenant: its tokens are refused from now on.",
            rpc("gateway", "SuspendTenant"),
            lambda ask: pb.SuspendTenantRequest(
                tenant_id=ask.path["tenant_id"], reason=ask.body.reason
            ),
            answer="tenant",
            body=Suspension,
        ),
        asking(
            "POST",
            "/v1/tenants/{tenant_id}/resume",
            "Lets a suspended tenant act again.",
            rpc("gateway", "ResumeTenant"),
            lambda ask: pb.ResumeTenantRequest(tenant_id=ask.path["tenant_id"]),
            answer="tenant",
        ),
    )


def _belongings() -> tuple[Operation, ...]:
    return (
        asking(
            "POST",
            "/v1/projects",
            "Opens a project.",
            rpc("gateway", "OpenProject"),
            lambda ask: pb.OpenProjectRequest(tenant_id=ask.tenant, project=ask.body.project),
            answer="tenant",
            status=201,
            body=NewProject,
            query=(TENANT,),
        ),
        asking(
            "POST",
            "/v1/credentials",
            "Issues a credential; its secret is shown this once.",
            rpc("gateway", "IssueCredential"),
            lambda ask: pb.IssueCredentialRequest(tenant_id=ask.tenant, role=ask.body.role),
            status=201,
            body=NewCredential,
            query=(TENANT,),
        ),
        asking(
            "DELETE",
            "/v1/credentials/{client_id}",
            "Revokes a credential: its tokens are refused from now on.",
            rpc("gateway", "RevokeCredential"),
            lambda ask: pb.RevokeCredentialRequest(
                tenant_id=ask.tenant, client_id=ask.path["client_id"]
            ),
            status=204,
            query=(TENANT,),
        ),
    )
