"""The tree over billing's own log, as history: the keys that sign its heads, and the heads.

The signature is made before the command, by whoever holds the key; here it is a fact. A head
covers less than its own position: the next one covers it.
"""

from __future__ import annotations

from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Refused

LOG_TREE = "tre_main"


class StaleHead(Refused):
    default_code = "STALE_HEAD"


class LogTree(Aggregate):
    TOPIC = "billing.log_tree"

    def __init__(self, log_id: str, key_id: str, public_key: str) -> None:
        self.log_id = log_id
        self.key_id = key_id
        self.public_key = public_key
        self.size = 0
        self.root = ""
        self.signed_at = 0

    class Opened(FirstEvent):
        TOPIC = "billing.log_tree.opened"
        log_id: str
        key_id: str
        public_key: str

    @classmethod
    def open(cls, log_id: str, key_id: str, public_key: str, *, at: int) -> LogTree:
        return cls._create(
            cls.Opened,
            id=LOG_TREE,
            log_id=log_id,
            key_id=key_id,
            public_key=public_key,
            timestamp=at,
        )

    def rotate_key(self, key_id: str, public_key: str, signature: str, *, at: int) -> None:
        """Sign with another key from now on; the one until now has signed that."""
        self.trigger_event(
            self.KeyRotated,
            key_id=key_id,
            public_key=public_key,
            previous_key_id=self.key_id,
            signature=signature,
            timestamp=at,
        )

    class KeyRotated(Aggregate.Event):
        TOPIC = "billing.log_tree.key_rotated"
        key_id: str
        public_key: str
        previous_key_id: str
        signature: str

        def apply(self, tree: LogTree) -> None:
            tree.key_id = self.key_id
            tree.public_key = self.public_key

    def sign_head(self, size: int, root: str, signed_at: int, signature: str, *, at: int) -> None:
        if size <= self.size:
            raise StaleHead(f"a head of {self.size} events is signed already")
        self.trigger_event(
            self.HeadSigned,
            log_id=self.log_id,
            size=size,
            root=root,
            signed_at=signed_at,
            key_id=self.key_id,
            signature=signature,
            timestamp=at,
        )

    class HeadSigned(Aggregate.Event):
        TOPIC = "billing.log_tree.head_signed"
        log_id: str
        size: int
        root: str
        signed_at: int
        key_id: str
        signature: str

        def apply(self, tree: LogTree) -> None:
            tree.size = self.size
            tree.root = self.root
            tree.signed_at = self.signed_at
