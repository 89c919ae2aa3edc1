"""The public keys that are trusted: named by the user, or kept from the first bill of a tenant.

A key that is kept is never replaced here. If a later bill is signed by another one that no
announcement leads to, that is what checking is for.
"""

import json
import os
import re
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from leasehold.cli.failures import Exit, Failure

_TENANT = re.compile(r"ten_[a-z0-9_]{1,100}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


def read_key(path: Path) -> str:
    """A public key from a file: PEM, or 64 hexadecimal digits."""
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    if _HEX.fullmatch(text.lower()):
        return text.lower()
    try:
        key = load_pem_public_key(text.encode())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise Failure(f"{path} holds no Ed25519 public key", Exit.USAGE, code="PUBLIC_KEY")
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


class Pinned:
    """One file for each tenant, in the user's own folder."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "ledger_keys"

    def get(self, tenant_id: str) -> str:
        """The public key kept for a tenant's bills, or ""."""
        try:
            return str(json.loads(self.path(tenant_id).read_text())["public_key"])
        except FileNotFoundError:
            return ""
        except (ValueError, KeyError, TypeError):
            raise Failure(
                f"{self.path(tenant_id)} is damaged", Exit.USAGE, code="PUBLIC_KEY"
            ) from None

    def keep(self, tenant_id: str, public_key: str) -> None:
        path = self.path(tenant_id)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"public_key": public_key}, file)

    def path(self, tenant_id: str) -> Path:
        if not _TENANT.fullmatch(tenant_id):
            raise Failure(f"{tenant_id[:60]!r} is no tenant", Exit.USAGE, code="TENANT")
        return self._folder / f"{tenant_id}.json"
