"""How tests call a service as the gateway does, and how they read a refusal."""

from typing import Any

import grpc

from chassis.rpc import error_from_rpc


def as_tenant(tenant_id: str, role: str = "tenant_user") -> tuple[tuple[str, str], ...]:
    """The metadata with which the gateway speaks for somebody of a tenant."""
    return (
        ("x-leasehold-role", role),
        ("x-leasehold-tenant", tenant_id),
        ("x-leasehold-actor", "tenant:bob"),
    )


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """How a call is refused: its status and the stable code."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code(), error_from_rpc(error).code
    raise AssertionError("the call was not refused")
