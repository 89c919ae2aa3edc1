"""Signing heads and anchoring them: what needs the key, the clock and the disk.

Nothing is signed that does not continue what was signed before. The signature is made here and
recorded by a command that checks it; replay never signs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from billing.domain.log_tree import LOG_TREE, LogTree
from billing.proof import heads
from billing.proof.anchor import AnchorFile
from billing.proof.heads import AnnouncedKey, SignedHead
from billing.proof.keys import Keys
from billing.proof.recording import Signed, TreeRecording
from billing.proof.tiles import Followed
from billing.proof.tree import Tree
from chassis import canonical
from chassis.clock import SECOND
from chassis.edge import Edge
from chassis.errors import NotFound
from chassis.store import Store

T = TypeVar("T")
# Takes a public key and the signature of its announcement.
Announce = Callable[[str, str], Awaitable[T]]

LOOK_SECONDS = 1.0
HEADS_PAGE = 500


class Signer:
    def __init__(
        self, billing: TreeRecording, edge: Edge, folder: Path, anchor: Path, period_seconds: int
    ) -> None:
        assert isinstance(billing.log, Store)
        self._billing = billing
        self._edge = edge
        self._store = billing.log
        self._keys = Keys(folder / "keys")
        self._tree = Followed(billing.log, folder / "tiles")
        self._anchor = AnchorFile(anchor)
        self._period_us = period_seconds * SECOND
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        await self._open()
        await self._anchor_heads()
        while True:
            if await self._edge.query(self._is_due):
                await self.sign()
            await asyncio.sleep(LOOK_SECONDS)

    async def sign(self, covering: int = 0) -> SignedHead:
        """The newest head; a new one if the log has grown and none covers that position."""
        await self._open()
        async with self._lock:
            last = await self._edge.query(lambda: dict(self._signed.head))
            if covering and last.get("size", 0) >= covering:
                return SignedHead.of(last)
            tree = await self._grown(last)
            if tree.size > last.get("size", 0):
                await self._record(tree)
        await self._anchor_heads()
        return SignedHead.of(await self._edge.query(lambda: dict(self._signed.head)))

    async def rotate(self, announce: Announce[T]) -> T:
        """Make a new key, signed by the one in force; ``announce`` records it."""
        await self._open()
        async with self._lock:
            log_id, key = await self._edge.query(lambda: (self._signed.log_id, self._key()))
            public_key = await asyncio.to_thread(self._keys.make)
            text = heads.key_text(log_id, key.key_id, public_key)
            signature = await asyncio.to_thread(self._keys.sign, key.key_id, text)
            return await announce(public_key, signature)

    async def head(self, size: int) -> SignedHead:
        """The head of so many events, which was signed; 0 means the newest."""
        if size == 0:
            return await self.sign(covering=1)
        rows = await asyncio.to_thread(self._heads, size - 1, 1)
        if not rows or rows[0].size != size:
            raise NotFound(f"no head of {size} events was signed", code="HEAD_NOT_FOUND")
        return rows[0]

    async def heads(self, after: int, limit: int) -> list[SignedHead]:
        """Heads of more than ``after`` events, smallest first."""
        return await asyncio.to_thread(self._heads, after, limit)

    async def tree(self, size: int) -> Tree:
        """The tree, at least so large."""
        async with self._lock:
            if self._tree.tree.size < size:
                last = await self._edge.query(lambda: dict(self._signed.head))
                await self._grown(last)
            return self._tree.tree

    @property
    def _signed(self) -> Signed:
        return self._billing.signed

    def _key(self) -> AnnouncedKey:
        return AnnouncedKey.of(self._signed.keys[-1])

    def _is_due(self) -> bool:
        return self._signed.is_due(self._edge.now(), self._period_us)

    async def _open(self) -> None:
        if not await self._edge.query(lambda: self._signed.log_id):
            public_key = await asyncio.to_thread(self._keys.make)
            await self._edge.act(lambda at: self._billing.open_tree(public_key, at=at))

    async def _grown(self, last: dict[str, int | str]) -> Tree:
        def grow() -> Tree:
            position = self._store.head().position
            size, root = int(last.get("size", 0)), str(last.get("root", ""))
            return self._tree.catch_up(position, size=size, root=root)

        return await asyncio.to_thread(grow)

    async def _record(self, tree: Tree) -> None:
        log_id, key = await self._edge.query(lambda: (self._signed.log_id, self._key()))
        size, signed_at = tree.size, self._edge.now()
        root = (await asyncio.to_thread(tree.root, size)).hex()
        text = heads.head_text(log_id, size, root, signed_at)
        signature = await asyncio.to_thread(self._keys.sign, key.key_id, text)
        await self._edge.act(
            lambda at: self._billing.record_head(size, root, signed_at, signature, at=at)
        )

    async def _anchor_heads(self) -> None:
        keys = await self._edge.query(
            lambda: {key["key_id"]: key["public_key"] for key in self._signed.keys}
        )

        def append() -> None:
            while found := self._heads(self._anchor.last_size(), HEADS_PAGE):
                self._anchor.append([(head, keys[head.key_id]) for head in found])

        async with self._lock:
            await asyncio.to_thread(append)

    def _heads(self, after: int, limit: int) -> list[SignedHead]:
        """From the log. A head stands behind what it covers, so those of more events than
        ``after`` stand behind position ``after``; so may the one before them, and keys."""
        found: list[SignedHead] = []
        position = after
        while len(found) < limit:
            rows = self._store.read(position, limit + 1, aggregate_id=LOG_TREE)
            for row in rows:
                if row.topic == LogTree.HeadSigned.TOPIC:
                    head = SignedHead.of(canonical.loads(row.data))
                    found += [head] if head.size > after else []
            if len(rows) <= limit:
                break
            position = rows[-1].position
        return found[:limit]
