"""Ending a loop for certain.

On Python 3.11 ``asyncio.wait_for`` can lose a cancellation that arrives together with the answer
it waits for, and the NATS client uses it in every request. A loop that never ends by itself asks
here in each round, so that a lost cancellation costs one round and not the whole shutdown.
"""

import asyncio


def end_if_cancelled() -> None:
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
