"""Those who speak gRPC with the platform: each shows a certificate, and the gateway speaks for
tenants, who have none."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from chassis.identity import Identity
from chassis.statuses import error_from_rpc
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import HOST
from tests.waiting import wait_for

SECONDS = 10
Metadata = tuple[tuple[str, str], ...]


class Speakers:
    """Channels to the running platform, closed together."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._channels: list[grpc.Channel] = []

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def operator(self, service: str) -> grpc.Channel:
        return self.showing(Identity(self._platform.identities.of("operator")), service)

    def gateway(self, service: str) -> grpc.Channel:
        return self.showing(Identity(self._platform.identities.of("gateway")), service)

    def node(self, name: str, service: str) -> grpc.Channel:
        return self.showing(Identity(self._platform.state / "nodes" / name / "identity"), service)

    def showing(self, identity: Identity, service: str) -> grpc.Channel:
        shown = identity.credentials()
        credentials = grpc.ssl_channel_credentials(shown.trust, shown.key, shown.chain)
        return self._open(self._platform.ports.grpc[service], credentials, service)

    def joining(self) -> grpc.Channel:
        """Somebody without a certificate, at the port where nodes join."""
        trust = (self._platform.identities.root / "cert.pem").read_bytes()
        credentials = grpc.ssl_channel_credentials(trust)
        return self._open(self._platform.ports.join, credentials, "placement")

    def _open(self, port: int, credentials: grpc.ChannelCredentials, name: str) -> grpc.Channel:
        options = [("grpc.ssl_target_name_override", name), ("grpc.enable_http_proxy", 0)]
        channel = grpc.secure_channel(f"{HOST}:{port}", credentials, options=options)
        self._channels.append(channel)
        return channel


def for_tenant(tenant_id: str, *, role: str = "tenant_admin", key: str = "") -> Metadata:
    """The metadata with which the gateway speaks for somebody of a tenant."""
    return (
        ("x-leasehold-role", role),
        ("x-leasehold-tenant", tenant_id),
        ("x-leasehold-actor", f"tenant:{tenant_id}"),
        *keyed(key),
    )


def keyed(key: str) -> Metadata:
    return (("idempotency-key", key),) if key else ()


def insisted(
    call: Callable[..., Any], request: Any, *passing: grpc.StatusCode, **options: Any
) -> Any:
    """The answer to a client that repeats what could not be answered now."""

    def attempt() -> Any:
        try:
            return call(request, timeout=SECONDS, **options)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, *passing):
                raise
            return None

    return wait_for(attempt, what="an answer that is not about the moment")


def refusal(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[grpc.StatusCode, str]:
    """How a call is refused: its status and the stable code."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, **{"timeout": SECONDS, **options})
    return caught.value.code(), error_from_rpc(caught.value).code
