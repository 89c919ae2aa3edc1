"""Waking whoever waits for news about something, on the event loop.

Listen before looking: news that come between the look and the wait have then rung already.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Bells:
    def __init__(self) -> None:
        self._listening: dict[str, set[asyncio.Event]] = {}

    def ring(self, name: str) -> None:
        for event in self._listening.get(name, ()):
            event.set()

    @contextmanager
    def listening(self, name: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._listening.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            self._listening[name].discard(event)
            if not self._listening[name]:
                del self._listening[name]


async def rung(event: asyncio.Event, seconds: float) -> bool:
    """Whether it rang within ``seconds``."""
    try:
        await asyncio.wait_for(event.wait(), max(0.0, seconds))
    except TimeoutError:
        return False
    return True
