"""Join tokens, derived instead of stored.

A token follows from the node's id, its expiry and the key of the node authority. So the database
holds only its hash, and yet a repeated request gets the same token again. Whoever has that key
could sign a certificate anyway.
"""

import base64
import hashlib
import hmac
from pathlib import Path


class Tokens:
    def __init__(self, node_ca_folder: Path) -> None:
        self._key = (node_ca_folder / "key.pem").read_bytes()

    def mint(self, node_id: str, expires_at: int) -> str:
        facts = f"join/{node_id}/{expires_at}".encode()
        secret = hmac.digest(self._key, facts, "sha256")
        return base64.urlsafe_b64encode(secret).decode().rstrip("=")


def token_sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
