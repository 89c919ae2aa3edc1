"""What can be chosen about a local platform: ``LEASEHOLD_STATE``, ``LEASEHOLD_PORT_BASE``, …"""

from dataclasses import dataclass, field
from pathlib import Path

from chassis.settings import Secret, Settings, limits
from leasehold.launcher.ports import NODES_MAX, SPAN

EMBEDDED = Secret("")


@dataclass(frozen=True, kw_only=True)
class PlatformSettings(Settings):
    state: Path = Path("state")
    port_base: int = field(default=7400, metadata=limits(low=1024, high=65535 - SPAN))
    # Existing servers to use; without them the platform starts its own.
    postgres_url: Secret = EMBEDDED
    nats_url: Secret = EMBEDDED
    nodes: int = field(default=2, metadata=limits(low=0, high=NODES_MAX))
    node_gpus: int = field(default=8, metadata=limits(low=1, high=16))
