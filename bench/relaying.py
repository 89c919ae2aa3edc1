"""Publishing a log to an empty stream, and the bus's own pace for messages of that size."""

import asyncio
import time

from bench.results import Results, Row
from bench.writing import fill, writer_on
from chassis.bus import Bus, events_stream
from chassis.relay import Relay
from chassis.store import Store

EVENTS = 30_000


def measure(url: str, nats_url: str, results: Results) -> None:
    with writer_on(url, "relayed") as (parcels, writer, store):
        fill(parcels, writer, EVENTS)
        rate = asyncio.run(_published(store, nats_url))
    results.add(Row("relay to JetStream, ordered and acknowledged", rate, "events/s"))


async def _published(store: Store, nats_url: str) -> float:
    bus = Bus(nats_url, "bench")
    head = await asyncio.to_thread(store.head)
    relay = asyncio.create_task(Relay(store, "bench").run(bus))
    jetstream = await bus.jetstream()
    await bus.ensure(events_stream("bench"))
    began = time.perf_counter()
    while True:
        info = await jetstream.stream_info("EVT_BENCH")
        if info.state.messages >= head.position:
            break
        await asyncio.sleep(0.02)
    seconds = time.perf_counter() - began
    relay.cancel()
    await asyncio.gather(relay, return_exceptions=True)
    await bus.close()
    return head.position / seconds
