"""Signed tree heads and announced keys: the texts that are signed, and whether they hold. Pure.

What is signed is a text of one fact per line, not JSON, so that nobody has to agree on an
encoding. A key is named by the hash of its public part; a new key counts because the one before
it signed its announcement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class _Facts:
    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """From JSON; KeyError or TypeError if it is not one."""
        values = {field.name: facts[field.name] for field in fields(cls)}
        for field in fields(cls):
            if type(values[field.name]) is not field.type:
                raise TypeError(f"{field.name} is of another type")
        return cls(**values)

    def facts(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SignedHead(_Facts):
    """That the first ``size`` events of a log have this root. Hashes are hexadecimal."""

    log_id: str
    size: int
    root: str
    signed_at: int
    key_id: str
    signature: str


@dataclass(frozen=True, slots=True)
class AnnouncedKey(_Facts):
    """A public key; the first of a log has no previous one, and no signature."""

    key_id: str
    public_key: str
    previous_key_id: str
    signature: str


def log_name(shard: int, first_key_id: str) -> str:
    """Names a log by its first key, so that no other log can pass for it."""
    return f"billing/{shard}/{first_key_id[:32]}"


def key_id(public_key: bytes) -> str:
    return sha256(public_key).hexdigest()


def head_text(log_id: str, size: int, root: str, signed_at: int) -> bytes:
    lines = ["leasehold tree head v1", log_id, f"size {size}", f"root {root}", f"time {signed_at}"]
    return "".join(f"{line}\n" for line in lines).encode()


def key_text(log_id: str, previous_key_id: str, public_key: str) -> bytes:
    lines = ["leasehold tree key v1", log_id, f"after {previous_key_id}", f"key {public_key}"]
    return "".join(f"{line}\n" for line in lines).encode()


def is_signed(text: bytes, signature: str, public_key: str) -> bool:
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def head_holds(head: SignedHead, public_key: str) -> bool:
    text = head_text(head.log_id, head.size, head.root, head.signed_at)
    return is_signed(text, head.signature, public_key)


def trusted_keys(log_id: str, trusted: str, announced: Sequence[AnnouncedKey]) -> dict[str, str]:
    """Public keys by id that count for whoever trusts the public key ``trusted``: that one, and
    those that a chain of announcements leads to from it."""
    found = {key_id(bytes.fromhex(trusted)): trusted}
    for key in announced:
        before = found.get(key.previous_key_id)
        if before is None or key_id(bytes.fromhex(key.public_key)) != key.key_id:
            continue
        if is_signed(key_text(log_id, key.previous_key_id, key.public_key), key.signature, before):
            found[key.key_id] = key.public_key
    return found
