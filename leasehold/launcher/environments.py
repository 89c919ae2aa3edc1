"""The settings that each process of the local platform is started with.

No process is told another's secrets: each environment carries the passwords of its own database
and bus users only, and nodes carry none.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.launcher.bus import OPERATOR
from leasehold.launcher.identities import Identities
from leasehold.launcher.leftovers import MARK
from leasehold.launcher.ports import SERVICES, Ports
from leasehold.launcher.server import HOST
from leasehold.launcher.state import StateFolder

# The launcher's own settings; as variables of a child they would mean something else.
_OURS = {f"LEASEHOLD_{name}" for name in ("CONFIG", "POSTGRES_URL", "NATS_URL")}


@dataclass(frozen=True)
class Environments:
    state: StateFolder
    ports: Ports
    identities: Identities
    postgres_urls: Mapping[str, str]
    nats_urls: Mapping[str, str]
    # What a test or a user changes: process name, then setting, then value.
    overrides: Mapping[str, Mapping[str, str]]

    def service(self, name: str) -> dict[str, str]:
        return self._environment(
            name,
            {
                "POSTGRES_URL": self.postgres_urls[name],
                "NATS_URL": self.nats_urls[name],
                "IDENTITY_DIR": str(self.identities.of(name)),
                "GRPC_PORT": str(self.ports.grpc[name]),
                "METRICS_PORT": str(self.ports.metrics[name]),
                "HOST": HOST,
                "PEERS": self.peers(),
                **self._particulars().get(name, {}),
            },
        )

    def provider(self) -> dict[str, str]:
        port, file = str(self.ports.provider), str(self.state / "provider.json")
        return self._environment("provider", {"PROVIDER_PORT": port, "PROVIDER_FILE": file})

    def node(self, number: int, nvml: str) -> dict[str, str]:
        name = f"node-{number}"
        folder = self.state / "nodes" / name
        settings = {
            "STATE_DIR": str(folder),
            "NODE_NAME": name,
            "NVML": nvml,
            "SIMULATED_NVML_STATE": str(folder / "gpus.txt"),
            "METRICS_PORT": str(self.ports.node_metrics(number)),
            "PLACEMENT_JOIN": f"{HOST}:{self.ports.join}",
            "PEERS": self.peers(),
            "TRUST_BUNDLE": str(self.identities.of(OPERATOR) / "ca.pem"),
            # Here a node ends when its agent is asked to: nothing outlives `leasehold up`.
            "STOP_JOBS": "true",
        }
        if (folder / "join_token").exists():
            settings["JOIN_TOKEN_FILE"] = str(folder / "join_token")
        return self._environment(name, settings)

    def peers(self) -> str:
        return ",".join(f"{name}={HOST}:{self.ports.grpc[name]}" for name in SERVICES)

    def _particulars(self) -> dict[str, dict[str, str]]:
        secret = self.state.secret("operator")
        return {
            "gateway": {
                "HTTP_PORT": str(self.ports.gateway_http),
                "OPERATOR_CLIENT_ID": OPERATOR,
                "OPERATOR_SECRET_SHA256": hashlib.sha256(secret.encode()).hexdigest(),
                "TOKEN_KEY_DIR": str(self.state / "token_keys"),
            },
            "placement": {
                "JOIN_PORT": str(self.ports.join),
                "NODE_CA_DIR": str(self.identities.node_ca),
            },
            "billing": {"PROOF_DIR": str(self.state / "proofs")},
            "aggregator": {"PROVIDER_URL": f"http://{HOST}:{self.ports.provider}"},
        }

    def _environment(self, process: str, settings: Mapping[str, str]) -> dict[str, str]:
        chosen = {**settings, **self.overrides.get(process, {})}
        inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
        named = {f"LEASEHOLD_{name}": value for name, value in chosen.items()}
        return {**inherited, **named, MARK: str(self.state.path)}
