"""What an operator checks: that no stored byte changed, and that replay gives the live state.

The stores are read directly, not through the services: a service cannot vouch for itself. The
bus is a second witness: a chain that was rewritten in a database differs from what was published.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from chassis.canonical import GENESIS, chained
from chassis.channels import Channels
from chassis.events import Recorded
from chassis.identity import Identity
from chassis.store import Store
from leasehold.chassis.v1 import log_service_pb2 as pb
from leasehold.chassis.v1.log_service_pb2_grpc import LogServiceStub

SERVICES = ("gateway", "admission", "placement", "aggregator", "enforcement", "billing")
FETCH = 500
REPLAY_SECONDS = 600


@dataclass(frozen=True)
class Finding:
    """What is known about one service's log; ``difference`` is the first thing wrong with it."""

    service: str
    events: int
    published: int
    head: str
    difference: str = ""


def verify_chain(store: Store) -> Iterator[tuple[Recorded, str]]:
    """Each row with what is wrong at it; ends after the first difference."""
    chain, expected = GENESIS, 1
    for page in store.replay():
        for row in page:
            wrong = ""
            chain = chained(chain, row.data)
            if row.position != expected:
                wrong = f"position {expected} is missing"
            elif chain != row.hash:
                wrong = (
                    f"position {row.position}: the stored bytes are not those that were hashed"
                    f" ({row.topic} of {row.aggregate_id}, version {row.version})"
                )
            elif columns := _columns_that_lie(row):
                wrong = f"position {row.position}: {columns} differs from the hashed bytes"
            yield row, wrong
            if wrong:
                return
            expected += 1


def _columns_that_lie(row: Recorded) -> str:
    meta = json.loads(row.data)["meta"]
    pairs = {
        "aggregate_id": row.aggregate_id,
        "version": row.version,
        "topic": row.topic,
        "tenant_id": row.tenant_id,
        "correlation_id": row.correlation_id,
    }
    return ", ".join(name for name, value in pairs.items() if meta[name] != value)


async def verify(postgres_url: str, nats_url: str, service: str) -> Finding:
    """Recompute a service's chain from its store and compare it with what was published."""
    store = Store(postgres_url, service)
    try:
        hashes, finding = await asyncio.to_thread(_verified_store, store, service)
    finally:
        await asyncio.to_thread(store.close)
    if finding.difference:
        return finding
    published, difference = await _compare_stream(nats_url, service, hashes)
    return Finding(service, finding.events, published, finding.head, difference)


def _verified_store(store: Store, service: str) -> tuple[list[bytes], Finding]:
    hashes = [GENESIS]
    # The head first: what is appended while the rows are read is beyond it.
    head = store.head()
    for row, wrong in verify_chain(store):
        if wrong:
            return hashes, Finding(service, len(hashes) - 1, 0, "", wrong)
        hashes.append(row.hash)
    difference = ""
    if head.position >= len(hashes):
        difference = f"position {len(hashes)} is missing: the head is at {head.position}"
    elif hashes[head.position] != head.hash:
        difference = f"the head at {head.position} has another hash than the chain"
    return hashes, Finding(service, len(hashes) - 1, 0, hashes[-1].hex(), difference)


async def _compare_stream(nats_url: str, service: str, hashes: list[bytes]) -> tuple[int, str]:
    count = 0
    async with aclosing(_published(nats_url, service)) as messages:
        async for position, said, data in messages:
            if position >= len(hashes):
                continue  # recorded after the store was read
            if bytes.fromhex(said) != hashes[position]:
                return count, f"position {position}: the bus published another event than is stored"
            if chained(hashes[position - 1], data) != hashes[position]:
                return count, f"position {position}: the bytes on the bus were changed"
            count += 1
    return count, ""


async def _published(nats_url: str, service: str) -> AsyncIterator[tuple[int, str, bytes]]:
    user = nats_url.split("//")[-1].partition(":")[0] if "@" in nats_url else ""
    prefix = f"_INBOX_{user}" if user else "_INBOX"
    client = await nats.connect(nats_url, inbox_prefix=prefix.encode(), allow_reconnect=False)
    try:
        jetstream = client.jetstream()
        async for message in _messages(jetstream, f"EVT_{service.upper()}"):
            headers = message.headers or {}
            yield int(headers["ce-position"]), headers["ce-hash"], message.data
    finally:
        await client.close()


async def _messages(jetstream: JetStreamContext, stream: str) -> AsyncIterator[Any]:
    try:
        state = (await jetstream.stream_info(stream)).state
    except NotFoundError:
        return
    for sequence in range(state.first_seq, state.last_seq + 1):
        try:
            yield await jetstream.get_msg(stream, sequence)
        except NotFoundError:
            continue


# Replay.


async def check_replay(postgres_url: str, peers: dict[str, str], identity: Path, service: str) -> str:
    """Rebuild a service from zero in a fresh process; "" if it equals the live state."""
    channels = Channels(Identity(identity), peers)
    try:
        position, live = await _live_state(LogServiceStub(channels.get(service)))
    finally:
        await channels.close()
    rebuilt = await asyncio.to_thread(_rebuilt_state, postgres_url, service, position)
    if live == rebuilt:
        return ""
    return first_difference(json.loads(live), json.loads(rebuilt)) or "the bytes differ"


async def _live_state(stub: LogServiceStub) -> tuple[int, bytes]:
    position, chunks = 0, []
    async for piece in stub.GetState(pb.GetStateRequest(), timeout=REPLAY_SECONDS):
        position = piece.position
        chunks.append(piece.chunk)
    return position, b"".join(chunks)


def _rebuilt_state(postgres_url: str, service: str, position: int) -> bytes:
    environment = {**os.environ, "LEASEHOLD_POSTGRES_URL": postgres_url}
    return subprocess.run(
        [sys.executable, "-m", service, "rebuild", str(position)],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=REPLAY_SECONDS,
    ).stdout


def first_difference(live: Any, rebuilt: Any, path: str = "") -> str:
    """Where two states part, in words."""
    if isinstance(live, dict) and isinstance(rebuilt, dict):
        for key in sorted(live.keys() | rebuilt.keys()):
            if live.get(key) != rebuilt.get(key):
                return first_difference(live.get(key), rebuilt.get(key), f"{path}.{key}")
        return ""
    return f"{path.lstrip('.')}: live {_short(live)}, rebuilt {_short(rebuilt)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return text if len(text) < 120 else f"{text[:100]}… ({digest})"
