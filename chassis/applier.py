"""Applies the events of one source: each effect and the cursor behind it in one commit.

Events are handed to the writer without waiting in between, so that many share a commit. When
one fails, the writer refuses those after it, because the cursor is not where they expect it:
no event is ever passed over unless it was applied or parked.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from prometheus_client import Counter
from psycopg_pool import PoolTimeout

from chassis.bus import Bus
from chassis.canonical import GENESIS
from chassis.edge import settled
from chassis.errors import CursorMoved, Overloaded, Unavailable
from chassis.events import Recorded
from chassis.incoming import Reaction, Reactions
from chassis.metrics import REGISTRY
from chassis.parking import Parking
from chassis.store import Cursor, Store
from chassis.writer import Writer

# Failures of the moment, which say nothing about the event.
TRANSIENT = (Unavailable, Overloaded, CursorMoved, psycopg.OperationalError, PoolTimeout)
TRIES = 2

_applied = Counter(
    "leasehold_consumer_applied", "Events applied or passed over", ("source",), registry=REGISTRY
)


class Doubtful(Exception):
    """An event from the bus cannot be applied; its owner's bytes decide."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many events were applied, and which one could not be, if any."""

    done: int
    failed: Recorded | None = None
    failure: Exception | None = None


class Applier:
    def __init__(
        self,
        service: str,
        source: str,
        store: Store,
        writer: Writer,
        table: Mapping[str, Reaction],
    ) -> None:
        self._source = source
        self._store = store
        self._writer = writer
        self._reactions = Reactions(service, source, table)
        self._parking = Parking(service, source, store, writer, self._reactions)
        self._busy = asyncio.Lock()
        self.cursor = self._start()

    async def load(self) -> None:
        """Begin where the last commit ended."""
        async with self._busy:
            found = await asyncio.to_thread(self._store.cursor, self._source)
            self.cursor = found or self._start()
            await self._parking.load()

    def adopt(self, incarnation: str) -> None:
        """The owner's database goes on under another identity, with the same history."""
        self.cursor = replace(self.cursor, incarnation=incarnation)

    async def apply(self, events: list[Recorded], *, by_owner: bool) -> None:
        """Apply a verified continuation of what was applied before."""
        async with self._busy:
            tried: dict[int, int] = {}
            while events:
                outcome = await self._commit(events)
                events = events[outcome.done :]
                if outcome.failed is None or outcome.failure is None:
                    continue
                if isinstance(outcome.failure, TRANSIENT):
                    raise outcome.failure
                position = outcome.failed.position
                if not by_owner:
                    raise Doubtful(f"{self._source}/{position}: {outcome.failure!r}")
                tried[position] = tried.get(position, 0) + 1
                if tried[position] >= TRIES:
                    cursor = self._moved(self.cursor, outcome.failed)
                    cause = repr(outcome.failure)
                    await settled(self._parking.park(outcome.failed, cursor, cause))
                    self.cursor = cursor
                    events = [event for event in events if event.position > position]

    async def redrive(self) -> int:
        """Apply parked events again; answers how many could be."""
        async with self._busy:
            return await self._parking.redrive()

    async def copy_to_dead_letters(self, bus: Bus) -> None:
        await self._parking.copy_to_dead_letters(bus)

    async def _commit(self, events: list[Recorded]) -> Outcome:
        indexes: list[int] = []
        futures: list[Future[Any]] = []
        before = self.cursor
        for index, event in enumerate(events):
            # Events without a reaction are passed over by the cursor of the one that follows.
            if event.topic in self._reactions or index + 1 == len(events):
                cursor = self._moved(before, event)
                try:
                    futures.append(self._submit(event, cursor))
                except TRANSIENT as error:
                    futures.append(_failed(error))
                indexes.append(index)
                before = cursor
        results = await asyncio.gather(*map(settled, futures), return_exceptions=True)
        outcome = Outcome(0)
        for index, result in zip(indexes, results, strict=True):
            if isinstance(result, Exception):
                outcome = replace(outcome, failed=events[index], failure=result)
                break
            outcome = Outcome(index + 1)
            self.cursor = self._moved(self.cursor, events[index])
        _applied.labels(self._source).inc(outcome.done)
        return outcome

    def _submit(self, event: Recorded, cursor: Cursor) -> Future[Any]:
        if event.topic in self._reactions and self._parking.holds_up(event):
            return self._parking.park(event, cursor, "an earlier event of its aggregate is parked")
        return self._writer.command(
            self._reactions.run(event), cause=self._reactions.cause(event), cursor=cursor
        )

    def _moved(self, cursor: Cursor, event: Recorded) -> Cursor:
        return replace(cursor, position=event.position, hash=event.hash, after=cursor.position)

    def _start(self) -> Cursor:
        return Cursor(source=self._source, position=0, incarnation="", hash=GENESIS, after=0)


def _failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
