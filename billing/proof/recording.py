"""Commands and the view of the tree over the log: what was signed, and whether a head is due.

No command believes a signature: it is checked against the key in force before it is recorded.
"""

from typing import Any

from billing.domain.invoice import Invoice
from billing.domain.log_tree import LOG_TREE, LogTree
from billing.proof import heads
from chassis.application import Application, View
from chassis.errors import Invalid, Refused


class Signed(View):
    """The keys, the last head, and how far the log goes beyond it."""

    def __init__(self) -> None:
        self.log_id = ""
        self.opened_at = 0
        self.keys: list[dict[str, Any]] = []
        self.head: dict[str, Any] = {}
        # Positions: positions have no gaps, so they are counted.
        self.position = 0
        self.last_fact = 0
        self.last_invoice = 0

    def apply(self, event: Any) -> None:
        self.position += 1
        kind = type(event)
        if kind is LogTree.HeadSigned:
            self.head = heads.SignedHead.of(vars(event)).facts()
            return
        self.last_fact = self.position
        if kind is Invoice.Issued:
            self.last_invoice = self.position
        elif kind is LogTree.Opened:
            self.log_id = event.log_id
            self.opened_at = event.timestamp
            first = {"key_id": event.key_id, "public_key": event.public_key}
            self.keys = [{**first, "previous_key_id": "", "signature": ""}]
        elif kind is LogTree.KeyRotated:
            self.keys = [*self.keys, heads.AnnouncedKey.of(vars(event)).facts()]

    @property
    def size(self) -> int:
        return int(self.head.get("size", 0))

    def is_due(self, at: int, period_us: int) -> bool:
        """An invoice is signed for at once, everything else once in a period. Heads are no
        reason for a head, or an idle log would grow for ever."""
        if self.last_invoice > self.size:
            return True
        since = self.head.get("signed_at", self.opened_at)
        return bool(self.last_fact > self.size and at >= since + period_us)


class TreeRecording(Application):
    """The part of billing's application that keeps the tree's history."""

    def watch_tree(self) -> None:
        self.signed = Signed()
        self.views["signed"] = self.signed

    def open_tree(self, public_key: str, *, at: int) -> LogTree:
        tree = self.find(LogTree, LOG_TREE)
        if tree is None:
            key_id = heads.key_id(bytes.fromhex(public_key))
            log_id = heads.log_name(self.log.shard, key_id)
            tree = LogTree.open(log_id, key_id, public_key, at=at)
            self.save(tree)
        return tree

    def rotate_key(self, public_key: str, signature: str, *, at: int) -> heads.AnnouncedKey:
        tree = self.get(LogTree, LOG_TREE)
        key_id = heads.key_id(bytes.fromhex(public_key))
        text = heads.key_text(tree.log_id, tree.key_id, public_key)
        if not heads.is_signed(text, signature, tree.public_key):
            raise Refused("the key in force has not signed the new one", code="KEY_NOT_SIGNED")
        announced = heads.AnnouncedKey(key_id, public_key, tree.key_id, signature)
        tree.rotate_key(key_id, public_key, signature, at=at)
        self.save(tree)
        return announced

    def record_head(self, size: int, root: str, signed_at: int, signature: str, *, at: int) -> None:
        tree = self.get(LogTree, LOG_TREE)
        if not 0 < size <= self.head.position:
            raise Invalid(f"the log has no {size} events", code="SIZE", field="size")
        text = heads.head_text(tree.log_id, size, root, signed_at)
        if not heads.is_signed(text, signature, tree.public_key):
            raise Refused("the key in force has not signed this head", code="HEAD_NOT_SIGNED")
        tree.sign_head(size, root, signed_at, signature, at=at)
        self.save(tree)
