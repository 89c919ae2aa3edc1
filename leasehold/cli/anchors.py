"""Billing's log against the heads that were signed: those it holds, and those in the anchor file.

A hash chain that is rewritten from the middle is a good chain again. It is no longer what was
signed: the root at each head's size differs, or the key that signed it was never announced.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from billing.domain.log_tree import LOG_TREE, LogTree
from billing.proof import anchor, heads, merkle
from billing.proof.heads import AnnouncedKey, SignedHead
from chassis import canonical
from chassis.events import Recorded
from chassis.store import Store

_PAGE = 5_000


def difference(store: Store, file: Path) -> tuple[str, str]:
    """The first thing wrong with the log, or ""; and what could not be looked at, or ""."""
    content = file.read_bytes() if file.exists() else b""
    try:
        anchored = anchor.read(content)
    except anchor.AnchorDiffers as error:
        return str(error), ""
    logged = list(_logged(store))
    wrong = checked((row for page in store.replay() for row in page), logged, anchored)
    missing = bool(logged) and not anchored
    return wrong, f"the anchor file {file.name} is missing" if missing and not wrong else ""


def _logged(store: Store) -> Iterator[SignedHead]:
    after = 0
    while page := store.read(after, _PAGE, aggregate_id=LOG_TREE):
        for row in page:
            if row.topic == LogTree.HeadSigned.TOPIC:
                yield SignedHead.of(canonical.loads(row.data))
        after = page[-1].position


def checked(
    rows: Iterable[Recorded], logged: list[SignedHead], anchored: list[tuple[SignedHead, str]]
) -> str:
    """Read a log once, and compare its root wherever a head was signed; what is wrong, or ""."""
    announced, tree = Announced(), merkle.Frontier()
    kept = {head.size: (head, key) for head, key in anchored}
    signed = {head.size: head for head in logged}
    for row in rows:
        if row.aggregate_id == LOG_TREE and (wrong := announced.take(row)):
            return wrong
        tree.append(merkle.leaf_hash(row.data))
        size = tree.size
        if size in kept or size in signed:
            root = tree.root().hex()
            if size in kept and (wrong := announced.anchored(*kept[size], root)):
                return wrong
            if size in signed and signed[size].root != root:
                return f"position {size} or one before it: the log is not the one that was signed"
    last = max(kept, default=0)
    if last > tree.size:
        return f"the log has {tree.size} events, and a head of {last} was signed and anchored"
    if left_out := min((size for size in signed if size < last and size not in kept), default=0):
        return f"the head of {left_out} events was signed and is not in the anchor file"
    return ""


class Announced:
    """The keys that a log announces, as far as it was read."""

    def __init__(self) -> None:
        self._log_id = ""
        self._keys: dict[str, str] = {}
        self._last = ""

    def take(self, row: Recorded) -> str:
        facts = canonical.loads(row.data)
        if row.topic == LogTree.Opened.TOPIC:
            self._log_id, self._last = facts["log_id"], facts["public_key"]
            self._keys = {facts["key_id"]: facts["public_key"]}
        elif row.topic == LogTree.KeyRotated.TOPIC:
            key = AnnouncedKey.of(facts)
            if key.key_id not in heads.trusted_keys(self._log_id, self._last, [key]):
                return f"position {row.position}: a key that the one before it did not announce"
            self._keys[key.key_id] = self._last = key.public_key
        else:
            head = SignedHead.of(facts)
            if not heads.head_holds(head, self._keys.get(head.key_id, "")):
                return f"position {row.position}: a head that no announced key signed"
        return ""

    def anchored(self, head: SignedHead, public_key: str, root: str) -> str:
        """What is wrong between an anchored head and the log, whose root is this."""
        own = heads.key_id(bytes.fromhex(public_key)) == head.key_id
        if not own or not heads.head_holds(head, public_key):
            return f"the anchored head of {head.size} events is not signed by its key"
        if head.key_id not in self._keys or head.log_id != self._log_id:
            return (
                f"the anchored head of {head.size} events is signed by key {head.key_id[:16]}, "
                "which the log never announced: the signing key was replaced"
            )
        if head.root != root:
            return (
                f"position {head.size} or one before it: the log is not the one whose head of "
                f"{head.size} events was signed and anchored"
            )
        return ""
