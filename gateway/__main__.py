"""Settings and wiring of the gateway."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from chassis.edge import Edge
from chassis.serve import Part, run
from chassis.settings import PORT, ServiceSettings
from gateway.api import GatewayService
from gateway.application import Gateway
from gateway.http.app import Gate, application
from gateway.http.calls import SERVICES
from gateway.http.rates import Rates
from gateway.http.server import bound, serve_http
from gateway.http.sessions import Sessions, Staff
from gateway.signing_keys import SigningKeys
from gateway.tokens import Tokens
from leasehold.gateway.v1.gateway_service_pb2_grpc import add_GatewayServiceServicer_to_server

ROTATION_LOOK_SECONDS = 60

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(ServiceSettings):
    """The two staff clients are known by the hash of their secret; finance may be absent."""

    http_port: int = field(metadata=PORT)
    token_key_dir: Path
    token_issuer: str = "leasehold"
    operator_client_id: str
    operator_secret_sha256: str
    finance_client_id: str = ""
    finance_secret_sha256: str = ""

    def problems(self) -> list[str]:
        found = super().problems()
        for role in ("operator", "finance"):
            name = getattr(self, f"{role}_client_id")
            digest = getattr(self, f"{role}_secret_sha256")
            if (name or role == "operator") and not _SHA256.fullmatch(digest):
                found.append(
                    f"LEASEHOLD_{role.upper()}_SECRET_SHA256 must be 64 hexadecimal digits"
                )
        if missing := set(SERVICES) - self.peers.keys():
            found.append(f"LEASEHOLD_PEERS does not name {', '.join(sorted(missing))}")
        if self.http_port and self.http_port in (self.grpc_port, self.metrics_port):
            found.append("LEASEHOLD_HTTP_PORT must differ from the other ports")
        return found

    def staff(self) -> dict[str, Staff]:
        found = {self.operator_client_id: Staff("operator", self.operator_secret_sha256)}
        if self.finance_client_id:
            found[self.finance_client_id] = Staff("finance", self.finance_secret_sha256)
        return found


def part(gateway: Gateway, settings: GatewaySettings, edge: Edge) -> Part:
    keys = SigningKeys(settings.token_key_dir)
    keys.rotate(edge.now())
    sessions = Sessions(gateway, Tokens(keys, settings.token_issuer), settings.staff())
    rates = Rates(lambda: time.monotonic_ns() // 1000)
    app = application(Gate(gateway, edge, sessions, keys, rates))

    async def serve_rest() -> None:
        with bound(settings.host, settings.http_port) as listener:
            await serve_http(app, listener)

    async def rotate_keys() -> None:
        while True:
            await asyncio.sleep(ROTATION_LOOK_SECONDS)
            await asyncio.to_thread(keys.rotate, edge.now())

    return Part(
        servicers=[(add_GatewayServiceServicer_to_server, GatewayService(gateway, edge))],
        workflows=[serve_rest, rotate_keys],
    )


if __name__ == "__main__":
    run(Gateway, GatewaySettings, part)
