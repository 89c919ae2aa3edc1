"""The gRPC server of a service: every call is identified, authorised, bounded and counted.

The door before a handler is put there when the handler is registered, so no method can be
served without it. Its order matters: who calls, may they, by when, and only then what they say;
a caller without permission learns nothing from the way a request is parsed. What a handler
raises leaves as one status with a stable code; anything unexpected leaves as an incident id,
and the stack stays in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from chassis.callers import Caller as Caller
from chassis.callers import caller as caller
from chassis.door import Table, behind_door
from chassis.identity import Identity
from chassis.statuses import error_from_rpc as error_from_rpc

Servicer = tuple[Callable[[Any, Any], None], Any]

RECEIVE_BYTES_MAX = 4 * 1024 * 1024
STREAMS_MAX = 1000
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GrpcServer:
    """A server that listens."""

    port: int
    server: grpc.aio.Server
    health: health.aio.HealthServicer

    async def stop(self, grace: float = 3) -> None:
        """Tells health checkers first, then lets calls under way finish within ``grace``."""
        await self.health.enter_graceful_shutdown()
        await self.server.stop(grace)


async def serve_grpc(
    host: str,
    port: int,
    identity: Identity,
    servicers: Iterable[Servicer],
    table: Table,
    *,
    environment: str = "development",
    require_client_certificate: bool = True,
    receive_bytes_max: int = RECEIVE_BYTES_MAX,
    connection_age_ms: int = 10 * _MINUTE_MS,
) -> GrpcServer:
    """Binds and starts; port 0 takes a free one. RuntimeError if the port is taken."""
    server = grpc.aio.server(options=_options(receive_bytes_max, connection_age_ms))
    registry = _Registry()
    for add, servicer in servicers:
        add(servicer, registry)
    for service, handlers in registry.services.items():
        safe = {name: behind_door(f"/{service}/{name}", h, table) for name, h in handlers.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, safe),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    if environment != "production" and require_client_certificate:
        names = (*registry.services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    bound = server.add_secure_port(
        f"{host}:{port}", _server_credentials(identity, require_client_certificate)
    )
    await server.start()
    for name in ("", *registry.services):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    return GrpcServer(bound, server, checks)


class _Registry:
    """Stands in for a server while generated code registers its handlers."""

    def __init__(self) -> None:
        self.services: dict[str, Mapping[str, grpc.RpcMethodHandler]] = {}

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler]
    ) -> None:
        self.services[service] = handlers

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """The same handlers once more, in the form of older generated code."""


def _server_credentials(identity: Identity, required: bool) -> grpc.ServerCredentials:
    """Credentials that follow the renewals of ``identity``, asked at every handshake."""
    shown = identity.credentials()

    def configuration() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration(
            [(shown.key, shown.chain)], root_certificates=shown.trust
        )

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        newest = identity.credentials()
        if newest.generation == shown.generation:
            return None
        shown = newest
        return configuration()

    # The stubs do not know that None means: nothing new.
    return grpc.dynamic_ssl_server_credentials(configuration(), renewed, required)  # type: ignore[arg-type]


def _options(receive_bytes_max: int, connection_age_ms: int) -> list[tuple[str, int]]:
    return [
        # Without this two processes could listen on one port and share its calls.
        ("grpc.so_reuseport", 0),
        # An old connection would outlive the certificate that it was made with.
        ("grpc.max_connection_age_ms", connection_age_ms),
        ("grpc.max_connection_age_grace_ms", _MINUTE_MS // 2),
        ("grpc.max_receive_message_length", receive_bytes_max),
        ("grpc.max_concurrent_streams", STREAMS_MAX),
        ("grpc.keepalive_time_ms", _MINUTE_MS // 2),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 2),
    ]
