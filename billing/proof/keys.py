"""The private keys that sign tree heads: one file each, for the owner's eyes only.

A file is named by its key's id, so which key signs is never said here but by the log. A file that
others can read is refused: whoever read it can sign.
"""

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from billing.proof import heads


class KeyUnusable(Exception):
    """The key that has to sign is not here, or is not a secret."""


class Keys:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self) -> str:
        """A new key; answers its public part."""
        private = Ed25519PrivateKey.generate()
        public = public_part(private)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(heads.key_id(public))
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        return public.hex()

    def sign(self, key_id: str, text: bytes) -> str:
        return self._private(key_id).sign(text).hex()

    def _private(self, key_id: str) -> Ed25519PrivateKey:
        path = self._path(key_id)
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise KeyUnusable(f"others can read {path}; make a new key, and rotate to it")
                private = load_pem_private_key(file.read(), None)
        except (OSError, ValueError) as error:
            raise KeyUnusable(f"{path} cannot be used: {error}") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyUnusable(f"{path} is not an Ed25519 key")
        if heads.key_id(public_part(private)) != key_id:
            raise KeyUnusable(f"{path} holds another key than it is named for")
        return private

    def _path(self, key_id: str) -> Path:
        return self._folder / f"{key_id}.pem"


def public_part(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
