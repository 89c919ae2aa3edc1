"""Publishing a log to an empty stream, and the bus's own pace for messages of that size."""

import asyncio
import tempfile
import time
from pathlib import Path

from bench.results import Results, Row
from bench.writing import fill, writer_on
from chassis import identity
from chassis.bus import Bus, events_stream
from chassis.relay import Relay
from chassis.store import Store

EVENTS = 30_000


def measure(url: str, nats_url: str, results: Results) -> None:
    with writer_on(url, "relayed") as (parcels, writer, store):
        fill(parcels, writer, EVENTS)
        with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as folder:
            rate = asyncio.run(_published(store, nats_url, _sealer(Path(folder))))
    results.add(Row("relay to JetStream, ordered and acknowledged", rate, "events/s"))


def _sealer(folder: Path) -> identity.Identity:
    identity.create_root(folder / "root")
    identity.issue(folder / "root", folder / "bench", "spiffe://leasehold/svc/bench")
    return identity.Identity(folder / "bench")


async def _published(store: Store, nats_url: str, sealer: identity.Identity) -> float:
    bus = Bus(nats_url, "bench")
    head = await asyncio.to_thread(store.head)
    relay = asyncio.create_task(Relay(store, "bench", sealer).run(bus))
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
