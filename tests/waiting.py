"""The only place in which tests let time pass.

A test waits for a condition with a deadline. Time itself passes only where that is the matter of
the test: a random moment at which something is killed, a minute without a control plane.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.02


def wait_for(condition: Callable[[], T], *, seconds: float = 10, what: str) -> T:
    """The first truthy answer of ``condition``; fails the test when none comes in time."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}; the last answer was {answer!r}")
        time.sleep(_POLL_SECONDS)
    return answer


async def wait_until(condition: Callable[[], Awaitable[T]], *, seconds: float = 10, what: str) -> T:
    """``wait_for`` a condition that has to be awaited."""
    deadline = time.monotonic() + seconds
    while not (answer := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}; the last answer was {answer!r}")
        await asyncio.sleep(_POLL_SECONDS)
    return answer


def let_pass(seconds: float) -> None:
    time.sleep(seconds)


async def let_pass_async(seconds: float) -> None:
    await asyncio.sleep(seconds)
