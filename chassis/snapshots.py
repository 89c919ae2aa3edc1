"""Snapshots while a service runs, so that a process that was killed need not fold its whole log.

A snapshot is a cache: it is taken between two groups of commands, saved beside the log, and
losing it costs nothing but the time of the next start.
"""

import asyncio

from chassis.application import Application
from chassis.edge import Edge
from chassis.store import Store

# Often enough that a start folds seconds of log, seldom enough that nobody waits for the dump.
EVENTS = 50_000
LOOK_SECONDS = 30.0


class Snapshots:
    def __init__(self, application: Application, store: Store, edge: Edge) -> None:
        self._application = application
        self._store = store
        self._edge = edge
        self._position = application.head.position

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.take_if_due()

    async def take_if_due(self) -> bool:
        if self._application.head.position - self._position < EVENTS:
            return False
        position, state = await self._edge.query(
            lambda: (self._application.head.position, self._application.snapshot())
        )
        code = await asyncio.to_thread(self._application.code)
        await asyncio.to_thread(self._store.save_snapshot, position, code, state)
        self._position = position
        return True
