"""The keys that sign tokens, in a folder that all gateways share; each file is one key.

A file's name is the time its key begins to sign. A key is published well before that, so that
whoever caches the key set knows it in time, and is kept after its successor took over for as
long as a token that it signed may live. Only the leading gateway calls ``rotate``.
"""

import base64
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.policy import SECOND

PERIOD = 24 * 3600 * SECOND
PUBLISHED_AHEAD = 3600 * SECOND
# How long a reader of the key set may keep it; much less than PUBLISHED_AHEAD.
CACHE_SECONDS = 300
KEPT_AFTER = 1800 * SECOND


@dataclass(frozen=True, slots=True)
class SigningKey:
    kid: str
    private: ec.EllipticCurvePrivateKey
    signs_from: int

    def jwk(self) -> dict[str, str]:
        return {**_members(self.private), "kid": self.kid, "use": "sig", "alg": "ES256"}


def new_start(starts: Iterable[int], at: int) -> int | None:
    """When a key that has to be made now shall begin to sign, or None."""
    last = max(starts, default=None)
    if last is None:
        return at
    following = max(last + PERIOD, at + PUBLISHED_AHEAD)
    return following if at >= last + PERIOD - PUBLISHED_AHEAD else None


def outlived(starts: Iterable[int], at: int) -> list[int]:
    """Keys that nothing valid can have been signed with."""
    ordered = sorted(starts)
    return [
        start
        for start, successor in zip(ordered, ordered[1:], strict=False)
        if successor + KEPT_AFTER <= at
    ]


class SigningKeys:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keys: dict[int, SigningKey] = {}

    def rotate(self, at: int) -> None:
        """Takes in what the folder holds, makes the next key in time, removes the outlived."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        keys = {start: self._read(start) for start in self._starts()}
        if (start := new_start(keys, at)) is not None:
            self._write(start, ec.generate_private_key(ec.SECP256R1()))
            keys[start] = self._read(start)
        for start in outlived(keys, at):
            self._path(start).unlink()
            del keys[start]
        self._keys = keys  # at once, because requests are answered meanwhile

    def signing(self, at: int) -> SigningKey:
        """The key to sign with; the oldest one, if the clock was set back before all of them."""
        started = [start for start in self._keys if start <= at]
        return self._keys[max(started) if started else min(self._keys)]

    def public(self, kid: str) -> ec.EllipticCurvePublicKey | None:
        found = (key for key in self._keys.values() if key.kid == kid)
        return next((key.private.public_key() for key in found), None)

    def key_set(self) -> dict[str, list[dict[str, str]]]:
        return {"keys": [self._keys[start].jwk() for start in sorted(self._keys)]}

    def _starts(self) -> list[int]:
        names = (path.stem for path in self._folder.glob("*.pem"))
        return [int(name) for name in names if name.isascii() and name.isdigit()]

    def _path(self, start: int) -> Path:
        return self._folder / f"{start}.pem"

    def _read(self, start: int) -> SigningKey:
        known = self._keys.get(start)
        if known is not None:
            return known
        private = load_pem_private_key(self._path(start).read_bytes(), None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{self._path(start)} is not a P-256 key")
        return SigningKey(_thumbprint(private), private, start)

    def _write(self, start: int, private: ec.EllipticCurvePrivateKey) -> None:
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        partial = self._folder / f".{start}.{os.getpid()}"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self._path(start))


def _members(private: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    numbers = private.public_key().public_numbers()
    return {"crv": "P-256", "kty": "EC", "x": _text(numbers.x), "y": _text(numbers.y)}


def _text(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32, "big")).rstrip(b"=").decode()


def _thumbprint(private: ec.EllipticCurvePrivateKey) -> str:
    """RFC 7638: the hash of the required members in order, without spaces."""
    inner = ",".join(f'"{name}":"{value}"' for name, value in sorted(_members(private).items()))
    digest = hashlib.sha256(f"{{{inner}}}".encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
