"""What billing does by itself: publish the first prices, then what the clock makes due."""

import asyncio
from collections.abc import Sequence

from billing.application import Billing
from billing.policy import Price
from chassis.clock import SECOND
from chassis.edge import Edge


class Clockwork:
    """``prices`` are those of the settings; a model that has a price keeps it."""

    def __init__(
        self, billing: Billing, edge: Edge, prices: Sequence[Price], tick_seconds: int
    ) -> None:
        self._billing = billing
        self._edge = edge
        self._prices = prices
        self._tick_seconds = tick_seconds

    async def run(self) -> None:
        await self._edge.act(lambda at: self._billing.publish_missing(self._prices, at=at))
        # Nodes kept what they measured while we were away; give them time to bring it before
        # anything is billed without them.
        await asyncio.sleep(self._billing.silence_us / SECOND)
        while True:
            await self.tick()
            await asyncio.sleep(self._tick_seconds)

    async def tick(self) -> None:
        while await self._edge.act(lambda at: self._billing.tick(at=at)):
            pass
        while await self._edge.act(lambda at: self._billing.settle_commitments(at=at)):
            pass
        while await self._edge.act(lambda at: self._billing.close_due(at=at)):
            pass
        await self._edge.act(lambda at: self._billing.watch_money(at=at))
