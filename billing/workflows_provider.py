"""Accrues what machines cost as time goes by, a bounded number of them in one command."""

import asyncio

from billing.providers import Providers
from chassis.edge import Edge


class Accruals:
    def __init__(self, billing: Providers, edge: Edge, tick_seconds: int) -> None:
        self._billing = billing
        self._edge = edge
        self._tick_seconds = tick_seconds

    async def run(self) -> None:
        while True:
            while await self._edge.act(lambda at: self._billing.accrue(at=at)):
                pass
            await asyncio.sleep(self._tick_seconds)
