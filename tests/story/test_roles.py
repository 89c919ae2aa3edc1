"""Every RPC of every service, called as every role, on the running platform.

The table in ``leasehold/authorisation.py`` is the expectation: a pair it does not list fails
here, and so does a service that lets in whom the table keeps out.
"""

import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

import leasehold
from chassis import identity
from chassis.channels import Channels
from leasehold.authorisation import ROLES, TABLE
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import HOST, SERVICES

pytestmark = pytest.mark.story

TENANT_ROLES = ("tenant_viewer", "tenant_user", "tenant_admin")


def test_every_rpc_keeps_out_exactly_whom_the_table_keeps_out(
    platform: Platform, tmp_path: Path
) -> None:
    methods = list(rpcs())
    assert len(methods) > 40
    unlisted = [
        f"{path} × {role}" for path, _, _ in methods for role in ROLES if role not in TABLE[path]
    ]
    assert unlisted == []
    wrong = asyncio.run(walk(platform, tmp_path, methods))
    assert wrong == []


async def walk(platform: Platform, folder: Path, methods: list[Any]) -> list[str]:
    wrong = []
    for role in ROLES:
        channels = Channels(certified(platform, folder / role, role), addresses(platform))
        for path, method, served_by in methods:
            for service in served_by:
                said = await called(channels.get(service), path, method, metadata(role))
                kept_out = said == f"{role} may not call {path}"
                if kept_out is TABLE[path][role]:
                    wrong.append(f"{service} {path} as {role}: {said}")
        await channels.close()
    return wrong


async def called(
    channel: grpc.aio.Channel, path: str, method: MethodDescriptor, metadata: list[tuple[str, str]]
) -> str:
    """The error of a call with an empty request: what stands behind the door does not matter."""
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    make = channel.unary_stream if method.server_streaming else channel.unary_unary
    call = make(path, request.SerializeToString, response.FromString)(
        request(), timeout=10, metadata=metadata
    )
    try:
        if method.server_streaming:
            async for _ in call:
                break
            call.cancel()
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return error.details() or error.code().name
    return ""


def certified(platform: Platform, folder: Path, role: str) -> identity.Identity:
    """A certificate of that role; tenants have none and come through the gateway."""
    identities = platform.identities
    if role == "node":
        key, request = identity.new_key_and_request()
        uri = "spiffe://nodes.leasehold/node/nod_walk"
        chain = identity.sign_request(identities.node_ca, request, uri, 600)
        identity.write(folder, key, chain, (identities.root / "cert.pem").read_bytes())
    else:
        kind = role if role in ("operator", "finance") else "svc"
        name = "gateway" if role in TENANT_ROLES else role
        identity.issue(identities.root, folder, f"spiffe://leasehold/{kind}/{name}", seconds=600)
    return identity.Identity(folder)


def metadata(role: str) -> list[tuple[str, str]]:
    if role not in TENANT_ROLES:
        return []
    return [
        ("x-leasehold-role", role),
        ("x-leasehold-tenant", "ten_walk"),
        ("x-leasehold-actor", "tenant:ten_walk"),
    ]


def addresses(platform: Platform) -> dict[str, str]:
    peers: dict[str, str] = platform.addresses()["peers"]
    return peers | {"join": f"{HOST}:{platform.ports.join}"}


def rpcs() -> Iterator[tuple[str, MethodDescriptor, tuple[str, ...]]]:
    """Path, descriptor and who serves it, for every RPC that any proto declares."""
    for service in descriptors():
        owner = service.full_name.split(".")[1]
        served_by = SERVICES if owner == "chassis" else (owner,)
        for method in service.methods:
            if service.name != "JoinService":
                yield f"/{service.full_name}/{method.name}", method, tuple(served_by)


def descriptors() -> Iterator[ServiceDescriptor]:
    (contracts,) = leasehold.__path__
    for file in sorted(Path(contracts).glob("*/v1/*_service_pb2.py")):
        module = importlib.import_module(f"leasehold.{file.parts[-3]}.v1.{file.stem}")
        yield from module.DESCRIPTOR.services_by_name.values()
