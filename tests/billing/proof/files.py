"""A proof file made from a log in memory, as the service and the command line make it."""

import json
from collections.abc import Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from billing.proof import heads, merkle
from billing.proof.bundle import FORMAT, ISSUED, invoice_document, subjects
from billing.proof.keys import public_part
from billing.proof.tree import Tree
from chassis import canonical
from chassis.events import Recorded
from tests.billing.world import HOUR_US, World, slices

SIGNED_AT = 1_767_300_000_000_000


class Key:
    """A signing key that is in no file."""

    def __init__(self, seed: int = 1) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.public = public_part(self._private).hex()
        self.id = heads.key_id(bytes.fromhex(self.public))

    def sign(self, text: bytes) -> str:
        return self._private.sign(text).hex()

    def head(self, log_id: str, size: int, root: bytes) -> dict[str, Any]:
        signature = self.sign(heads.head_text(log_id, size, root.hex(), SIGNED_AT))
        return heads.SignedHead(log_id, size, root.hex(), SIGNED_AT, self.id, signature).facts()

    def first(self) -> dict[str, Any]:
        return heads.AnnouncedKey(self.id, self.public, "", "").facts()

    def announce(self, log_id: str, new: "Key") -> dict[str, Any]:
        signature = self.sign(heads.key_text(log_id, self.id, new.public))
        return heads.AnnouncedKey(new.id, new.public, self.id, signature).facts()


LOG_ID = heads.log_name(0, Key().id)


def billed() -> World:
    """Two leases, sliced differently, on one invoice; and a life after it."""
    world = World()
    for lease_id, ends in (("lse_1", (1, 7_000_003, HOUR_US)), ("lse_2", (HOUR_US // 3,))):
        world.running(lease_id, gpu_count=3)
        world.wait(2 * HOUR_US)
        world.report(*slices(*ends, lease_id=lease_id))
        world.ended(HOUR_US + 11, lease_id)
    world.invoice()
    world.running("lse_3")
    return world


def tree_of(rows: Sequence[Recorded]) -> Tree:
    tree = Tree(lambda first, end: [merkle.leaf_hash(row.data) for row in rows[first:end]])
    for row in rows:
        tree.append(merkle.leaf_hash(row.data))
    return tree


def proof_file(
    rows: Sequence[Recorded], key: Key, *, size: int = 0, keys: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Of the first invoice in a log, against a head of ``size`` events or of all."""
    size = size or len(rows)
    tree = tree_of(rows)
    issued = next(canonical.loads(row.data) for row in rows if row.topic == ISSUED)
    wanted = subjects(issued)
    chosen = [row for row in rows if row.aggregate_id in wanted]
    chosen.sort(key=lambda row: wanted.index(row.aggregate_id))
    document = {
        "format": FORMAT,
        "invoice": invoice_document(issued),
        "head": key.head(LOG_ID, size, tree.root(size)),
        "keys": [*keys] or [key.first()],
        "events": [
            {
                "position": row.position,
                "data": row.data.decode(),
                "path": [hash_.hex() for hash_ in tree.inclusion(row.position - 1, size)],
            }
            for row in chosen
        ],
    }
    copy: dict[str, Any] = json.loads(json.dumps(document))
    return copy
