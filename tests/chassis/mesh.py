"""A trust root, identities under it, and real servers and channels between them on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from chassis import identity
from chassis.rpc import GrpcServer, serve_grpc
from leasehold.chassis.v1 import log_service_pb2 as log_pb2
from leasehold.chassis.v1 import log_service_pb2_grpc as log_grpc

GET_HEAD = "/leasehold.chassis.v1.LogService/GetHead"
REPLAY = "/leasehold.chassis.v1.LogService/Replay"
TABLE = {
    GET_HEAD: {"admission": True, "gateway": True, "operator": True, "tenant_user": True},
    REPLAY: {"admission": True},
}

Answer = Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]


class Mesh:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        identity.create_root(folder / "root")
        identity.create_node_ca(folder / "root", folder / "node_ca")

    def service(self, name: str, seconds: int = 3600) -> identity.Identity:
        return self.person(f"spiffe://leasehold/svc/{name}", name, dns=(name,), seconds=seconds)

    def person(
        self, uri: str, folder: str, dns: tuple[str, ...] = (), seconds: int = 3600
    ) -> identity.Identity:
        identity.issue(self.folder / "root", self.folder / folder, uri, dns, seconds)
        return identity.Identity(self.folder / folder)

    def node(self, node_id: str) -> identity.Identity:
        return self.minted(f"spiffe://nodes.leasehold/node/{node_id}")

    def minted(self, uri: str) -> identity.Identity:
        """Whatever the holder of the node authority's key signs."""
        key, request = identity.new_key_and_request()
        chain = identity.sign_request(self.folder / "node_ca", request, uri, 3600)
        folder = self.folder / f"minted-{len(list(self.folder.iterdir()))}"
        identity.write(folder, key, chain, (self.folder / "root" / "cert.pem").read_bytes())
        return identity.Identity(folder)


class Log(log_grpc.LogServiceServicer):
    """Answers as the test says."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def GetHead(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self.answer(request, context)

    async def Replay(
        self, request: log_pb2.ReplayRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[log_pb2.ReplayResponse]:
        yield log_pb2.ReplayResponse()
        await self.answer(request, context)
        yield log_pb2.ReplayResponse()


async def head(request: Any, context: grpc.aio.ServicerContext) -> log_pb2.GetHeadResponse:
    return log_pb2.GetHeadResponse(position=7)


@asynccontextmanager
async def serving(
    shown: identity.Identity, answer: Answer = head, port: int = 0, **options: Any
) -> AsyncIterator[GrpcServer]:
    log = (log_grpc.add_LogServiceServicer_to_server, Log(answer))
    table = options.pop("table", TABLE)
    server = await serve_grpc("127.0.0.1", port, shown, [log], table, **options)
    try:
        yield server
    finally:
        await server.stop(grace=0)


def raw_channel(
    port: int, shown: identity.Identity | None, trust: bytes, name: str = "billing"
) -> grpc.aio.Channel:
    """A channel without our client code, as a stranger would open it."""
    mine = shown.credentials() if shown else None
    secret = grpc.ssl_channel_credentials(
        trust, mine.key if mine else None, mine.chain if mine else None
    )
    options = [("grpc.ssl_target_name_override", name)]
    return grpc.aio.secure_channel(f"127.0.0.1:{port}", secret, options=options)


async def outcome(channel: grpc.aio.Channel, **options: Any) -> grpc.StatusCode:
    """How a call of GetHead ends."""
    try:
        await log_grpc.LogServiceStub(channel).GetHead(
            log_pb2.GetHeadRequest(), **{"timeout": 5, **options}
        )
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
