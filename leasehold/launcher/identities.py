"""The certificates of the local platform: made at the start, renewed at half their life.

The root key never leaves its folder and no service is told where it is; placement alone gets
the node authority, which cannot name services.
"""

from pathlib import Path

from chassis import identity
from chassis.identity import Identity, UnusableIdentity
from leasehold.launcher.ports import SERVICES

SECONDS_VALID = 3600


class Identities:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.node_ca = folder / "node_ca"
        self._seen: dict[Path, Identity] = {}

    def of(self, name: str) -> Path:
        """The folder of a service's identity, or of the operator's."""
        return self.folder / name

    def ensure(self) -> list[str]:
        """Make what is missing, renew what is due; tells whose identity is new."""
        if not (self.root / "cert.pem").exists():
            # A key without its certificate is the rest of an interrupted start.
            (self.root / "key.pem").unlink(missing_ok=True)
            identity.create_root(self.root)
        made = []
        if self._is_due(self.node_ca):
            identity.create_node_ca(self.root, self.node_ca)
            made.append("node_ca")
        for service in SERVICES:
            # Peers on one machine are reached by address and known by the service's name.
            uri, names = f"spiffe://leasehold/svc/{service}", (service, "localhost")
            made += self._issue_if_due(service, uri, names)
        made += self._issue_if_due("operator", "spiffe://leasehold/operator/local", ())
        return made

    def _issue_if_due(self, name: str, uri: str, dns_names: tuple[str, ...]) -> list[str]:
        if not self._is_due(self.of(name)):
            return []
        identity.issue(self.root, self.of(name), uri, dns_names, SECONDS_VALID)
        return [name]

    def _is_due(self, folder: Path) -> bool:
        try:
            seen = self._seen.get(folder) or Identity(folder)
        except UnusableIdentity:  # missing, or half written when the launcher was killed
            return True
        self._seen[folder] = seen
        return seen.needs_renewal()
