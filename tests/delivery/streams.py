"""Reading a stream back, and comparing it with the log it was published from."""

import asyncio

import nats
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from tests.chassis.shelf import Depot
from tests.delivery.rig import Core
from tests.waiting import wait_until

STREAM = "EVT_DEPOT"


async def stream_of(depot: Core[Depot], url: str) -> list[Msg]:
    """The messages of the stream, once it holds all of the log and nothing else."""
    rows = await asyncio.to_thread(depot.store.read, 0, 100_000)
    messages = await all_messages(url, len(rows))
    for row, message in zip(rows, messages, strict=True):
        assert message.headers is not None
        assert message.headers["ce-position"] == str(row.position)
        assert message.headers["ce-prev"] == str(row.position - 1)
        assert message.headers["ce-hash"] == row.hash.hex()
    return messages


async def all_messages(url: str, count: int) -> list[Msg]:
    """The messages of the stream, once there are exactly so many."""
    what = f"{count} messages in the stream"
    return await wait_until(lambda: _messages(url, count), seconds=15, what=what)


async def _messages(url: str, count: int) -> list[Msg]:
    client = await nats.connect(url)
    try:
        jetstream = client.jetstream()
        if (await jetstream.stream_info(STREAM)).state.messages != count:
            return []
        subscription = await jetstream.subscribe("evt.v1.depot.>", ordered_consumer=True)
        return [await subscription.next_msg(timeout=5) for _ in range(count)]
    except NotFoundError:
        return []
    finally:
        await client.close()
