"""Who else has seen a log: the bus, on which it was published, and the services that applied it.

Whoever rewrites a database consistently contradicts them. They are asked before the database is
read: what they have seen by then must be in it.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psycopg
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError
from psycopg import sql

from chassis.bus import Bus, events_stream
from chassis.canonical import chained
from chassis.envelope import Malformed, opened
from chassis.events import Recorded
from chassis.relay import HEADERS_BYTES_MAX
from leasehold.cli.chains import Chain

# Requests under way at once; one after the other would take a round trip each.
FETCHED_AT_ONCE = 128
CONNECT_SECONDS = 5


@dataclass(frozen=True)
class Extent:
    """What of a log is on the bus, by the numbers that the stream gave the messages."""

    first: int
    last: int
    payload_max: int

    @property
    def large_bytes(self) -> int:
        """An event of more bytes is left out by the relay."""
        return self.payload_max - HEADERS_BYTES_MAX


@dataclass(frozen=True)
class Sighting:
    """How far a service has applied the log of another, and the hash it saw there."""

    witness: str
    position: int
    hash: bytes


@dataclass(frozen=True)
class Contradiction:
    """What a witness says against a log; ``exact`` if nothing before it differs, either."""

    said: str
    exact: bool = True


async def extent(bus: Bus, service: str) -> Extent:
    jetstream, client = await bus.jetstream(), await bus.client()
    try:
        state = (await jetstream.stream_info(str(events_stream(service).name))).state
    except NotFoundError:
        return Extent(1, 0, client.max_payload)
    return Extent(state.first_seq, state.last_seq, client.max_payload)


async def compare_bus(
    bus: Bus, service: str, found: Extent, chain: Chain
) -> tuple[int, Contradiction | None]:
    """How many messages agree with the chain, and what the first says that does not."""
    count, last = 0, 0
    async for sequence, message in _messages(await bus.jetstream(), service, found):
        try:
            event = opened(service, message.headers, message.data or b"").event
        except Malformed as error:
            said = f"message {sequence} on the bus was not published by a relay ({error})"
            return count, Contradiction(said, exact=False)
        if wrong := _difference(event, last, chain):
            return count, wrong
        count, last = count + 1, event.position
    return count, None


def _difference(event: Recorded, last: int, chain: Chain) -> Contradiction | None:
    """What a message says against the chain; the one before it, if any, was of ``last``."""
    position = event.position
    if last and (disorder := _out_of_order(last, position, chain)):
        return Contradiction(disorder, exact=False)
    if position > chain.head:
        said = f"position {chain.head + 1} is missing: the bus has {position}"
        return Contradiction(said)
    if event.hash != chain.hash(position):
        # A hash covers all before it: only if the one before agrees, this is the first.
        exact = last > 0 or position == 1
        said = f"{_from(position, exact)}: the bus published another event than is stored"
        return Contradiction(said, exact)
    if chained(chain.hash(position - 1), event.data) != event.hash:
        return Contradiction(f"position {position}: the bytes on the bus were changed", exact=False)
    return None


def _from(position: int, exact: bool) -> str:
    return f"position {position}" if exact else f"position {position} or one before it"


def _out_of_order(last: int, position: int, chain: Chain) -> str:
    if position <= last:
        return f"position {position} is on the bus after position {last}"
    missing = next((p for p in range(last + 1, position) if p not in chain.large), 0)
    return f"position {missing} was left out on the bus" if missing else ""


async def _messages(
    jetstream: JetStreamContext, service: str, found: Extent
) -> AsyncIterator[tuple[int, RawStreamMsg]]:
    """Messages in order. One by one by number: a consumer would be shared between two readers."""
    stream = str(events_stream(service).name)
    for start in range(found.first, found.last + 1, FETCHED_AT_ONCE):
        numbers = range(start, min(start + FETCHED_AT_ONCE, found.last + 1))
        fetched = await asyncio.gather(*(_message(jetstream, stream, one) for one in numbers))
        for number, message in zip(numbers, fetched, strict=True):
            if message is not None:
                yield number, message


async def _message(jetstream: JetStreamContext, stream: str, number: int) -> RawStreamMsg | None:
    try:
        return await jetstream.get_msg(stream, number)
    except NotFoundError:
        return None  # grew too old meanwhile; a hole between messages is noticed by position


def sightings(postgres_url: str, service: str) -> list[Sighting]:
    """What the other services in the same database have applied of a service's log."""
    with psycopg.connect(postgres_url, connect_timeout=CONNECT_SECONDS) as connection:
        schemas = connection.execute(
            "select table_schema from information_schema.tables where table_name = 'cursors'"
            " and table_schema <> %s order by 1",
            (service,),
        ).fetchall()
        found = []
        for (schema,) in schemas:
            query = sql.SQL("select position, hash from {}.cursors where source = %s")
            rows = connection.execute(query.format(sql.Identifier(schema)), (service,))
            found += [Sighting(schema, position, bytes(hash_)) for position, hash_ in rows]
    return found


def compare_sightings(found: list[Sighting], chain: Chain) -> Contradiction | None:
    """What the service says that has applied the earliest of what is not stored."""
    agreed = 0
    for one in sorted(found, key=lambda one: one.position):
        if one.position > chain.head:
            said = f"position {chain.head + 1} is missing: {one.witness} applied {one.position}"
            return Contradiction(said)
        if one.position and one.hash != chain.hash(one.position):
            exact = one.position == agreed + 1
            said = f"{_from(one.position, exact)}: {one.witness} applied another event"
            return Contradiction(said, exact)
        agreed = one.position
    return None
