"""The gRPC face of the gateway. Translates and delegates; decides nothing.

A secret is made here, outside of the command, and put into the answer after it: the writer keeps
answers for repetition, and a kept secret would not be shown once. A repetition therefore gets
the same credential without its secret.
"""

import hashlib
import secrets

import grpc

from chassis import ids
from chassis.edge import Edge
from chassis.rpc import caller
from gateway import wire
from gateway.application import Gateway
from leasehold.gateway.v1 import gateway_service_pb2 as pb
from leasehold.gateway.v1 import gateway_service_pb2_grpc as pb_grpc

# Named so that scanners for leaked secrets can find one.
SECRET_PREFIX = "lhs_"


class GatewayService(pb_grpc.GatewayServiceServicer):
    def __init__(self, gateway: Gateway, edge: Edge) -> None:
        self._gateway = gateway
        self._edge = edge

    async def SignUpTenant(
        self, request: pb.SignUpTenantRequest, context: grpc.aio.ServicerContext
    ) -> pb.SignUpTenantResponse:
        tenant_id, client_id, secret = ids.new("ten"), ids.new("cli"), new_secret()

        def run(at: int) -> pb.SignUpTenantResponse:
            tenant = self._gateway.sign_up(
                tenant_id,
                request.name,
                request.project or "default",
                client_id=client_id,
                secret_sha256=sha256_of(secret),
                at=at,
            )
            return pb.SignUpTenantResponse(tenant=wire.tenant(tenant), client_id=client_id)

        answer = await self._edge.command(context, request, pb.SignUpTenantResponse, run)
        if answer.client_id == client_id:
            answer.client_secret = secret
        return answer

    async def IssueCredential(
        self, request: pb.IssueCredentialRequest, context: grpc.aio.ServicerContext
    ) -> pb.IssueCredentialResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        client_id, secret = ids.new("cli"), new_secret()

        def run(at: int) -> pb.IssueCredentialResponse:
            self._gateway.issue_credential(
                tenant_id,
                request.role,
                client_id=client_id,
                secret_sha256=sha256_of(secret),
                at=at,
            )
            return pb.IssueCredentialResponse(client_id=client_id)

        answer = await self._edge.command(context, request, pb.IssueCredentialResponse, run)
        if answer.client_id == client_id:
            answer.client_secret = secret
        return answer

    async def GetTenant(
        self, request: pb.GetTenantRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetTenantResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        return await self._edge.query(
            lambda: pb.GetTenantResponse(tenant=wire.tenant(self._gateway.tenant(tenant_id)))
        )

    async def OpenProject(
        self, request: pb.OpenProjectRequest, context: grpc.aio.ServicerContext
    ) -> pb.OpenProjectResponse:
        tenant_id = caller(context).scope(request.tenant_id)

        def run(at: int) -> pb.OpenProjectResponse:
            tenant = self._gateway.open_project(tenant_id, request.project, at=at)
            return pb.OpenProjectResponse(tenant=wire.tenant(tenant))

        return await self._edge.command(context, request, pb.OpenProjectResponse, run)

    async def RevokeCredential(
        self, request: pb.RevokeCredentialRequest, context: grpc.aio.ServicerContext
    ) -> pb.RevokeCredentialResponse:
        tenant_id = caller(context).scope(request.tenant_id)

        def run(at: int) -> pb.RevokeCredentialResponse:
            self._gateway.revoke_credential(tenant_id, request.client_id, at=at)
            return pb.RevokeCredentialResponse()

        return await self._edge.command(context, request, pb.RevokeCredentialResponse, run)

    async def SuspendTenant(
        self, request: pb.SuspendTenantRequest, context: grpc.aio.ServicerContext
    ) -> pb.SuspendTenantResponse:
        def run(at: int) -> pb.SuspendTenantResponse:
            tenant = self._gateway.suspend(request.tenant_id, request.reason, at=at)
            return pb.SuspendTenantResponse(tenant=wire.tenant(tenant))

        return await self._edge.command(context, request, pb.SuspendTenantResponse, run)

    async def ResumeTenant(
        self, request: pb.ResumeTenantRequest, context: grpc.aio.ServicerContext
    ) -> pb.ResumeTenantResponse:
        def run(at: int) -> pb.ResumeTenantResponse:
            tenant = self._gateway.resume(request.tenant_id, at=at)
            return pb.ResumeTenantResponse(tenant=wire.tenant(tenant))

        return await self._edge.command(context, request, pb.ResumeTenantResponse, run)


def new_secret() -> str:
    """256 random bits, so that a plain hash of them cannot be searched."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def sha256_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
