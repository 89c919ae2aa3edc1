"""Which port everything listens on: one base, fixed offsets, so that one setting moves them all."""

import random
import socket

from leasehold.launcher.server import HOST
from leasehold.launcher.state import CannotStart

SERVICES = ("gateway", "admission", "placement", "aggregator", "enforcement", "billing")
SPAN = 64
NODES_MAX = SPAN - 31

# Below the range from which operating systems take ports for outgoing connections.
_FREE_BASES = range(10_000, 32_000, SPAN)


class Ports:
    def __init__(self, base: int) -> None:
        self.base = base
        self.gateway_http = base
        self.grpc = {name: base + 1 + index for index, name in enumerate(SERVICES)}
        self.join = base + 7
        self.provider = base + 8
        self.nats = base + 9
        self.postgres = base + 10
        self.metrics = {name: base + 21 + index for index, name in enumerate(SERVICES)}

    def node_metrics(self, number: int) -> int:
        """Nodes are numbered from 1."""
        return self.base + 30 + number

    def wanted(self, nodes: int) -> dict[int, str]:
        """Every port and what it is for."""
        return {
            self.gateway_http: "the gateway's REST API",
            **{port: f"{name} (gRPC)" for name, port in self.grpc.items()},
            self.join: "placement (nodes join here)",
            self.provider: "the simulated provider",
            self.nats: "NATS",
            self.postgres: "PostgreSQL",
            **{port: f"{name} (metrics)" for name, port in self.metrics.items()},
            **{self.node_metrics(n): f"node-{n} (metrics)" for n in range(1, nodes + 1)},
        }


def refuse_busy(wanted: dict[int, str]) -> None:
    for port, purpose in wanted.items():
        if not _is_free(port):
            raise CannotStart(
                f"port {port}, wanted for {purpose}, is in use by another program; stop it, or "
                "move all ports with LEASEHOLD_PORT_BASE"
            )


def free_base(nodes: int = 2) -> int:
    """A base whose ports are all free now, for a platform beside others."""
    for base in random.sample(_FREE_BASES, len(_FREE_BASES)):
        if all(map(_is_free, Ports(base).wanted(nodes))):
            return base
    raise CannotStart(f"no {SPAN} neighbouring ports are free on this machine")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # As the servers do: a port whose last connections are still fading away is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True
