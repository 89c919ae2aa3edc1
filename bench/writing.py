"""Durable commands: one commit each, grouped by the writer, and the database's own limit."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

import psycopg

from bench.parcels import Parcels
from bench.results import Results, Row
from chassis import schema
from chassis.events import Recorded
from chassis.leader import Leader
from chassis.store import Group, Head, Store
from chassis.writer import GROUP_MAX, Writer

ALONE = 1_500
GROUPED = 45_000
PARCELS = 5_000
ROUNDS = 3


def measure(url: str, results: Results) -> None:
    """Rounds are interleaved and the best of each counts: the machine is shared."""
    alone, grouped, raw = 0.0, 0.0, 0.0
    for number in range(ROUNDS):
        with writer_on(url, f"alone{number}") as (parcels, writer, _):
            alone = max(alone, _commands_one_by_one(parcels, writer))
        with writer_on(url, f"grouped{number}") as (parcels, writer, store):
            grouped = max(grouped, _commands_together(parcels, writer))
            rows = [row for page in store.replay() for row in page]
        raw = max(raw, _raw_inserts(url, f"raw{number}", rows))
    results.add(Row("durable commands, one commit each", alone, "commands/s"))
    results.add(
        Row("durable commands, grouped", grouped, "commands/s", grouped / alone, "one each", 8)
    )
    # A command here is an event, its answer and its key; raw inserts write the same rows.
    results.add(
        Row(
            "the same rows as raw grouped inserts",
            raw,
            "commands/s",
            grouped / raw,
            "writer to raw",
            0.5,
        )
    )


@contextmanager
def writer_on(url: str, name: str) -> Iterator[tuple[Parcels, Writer, Store]]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(schema.ddl(name, connection.info.user).encode())
    store = Store(url, name)
    head = Leader(store, "bench", 60_000).acquire()
    assert head is not None
    parcels = Parcels(store)
    parcels.catch_up()
    writer = Writer(parcels, store, head)
    writer.start()
    try:
        yield parcels, writer, store
    finally:
        writer.stop()
        store.close()


def weigh(parcels: Parcels, writer: Writer, number: int) -> Future[bytes]:
    parcel_id = f"pcl_{number % PARCELS:06d}"
    return writer.command(
        lambda at: parcels.weigh(parcel_id, 5, at=at), key=f"key-{number}", payload=b"payload"
    )


def _commands_one_by_one(parcels: Parcels, writer: Writer) -> float:
    began = time.perf_counter()
    for number in range(ALONE):
        weigh(parcels, writer, number).result()
    return ALONE / (time.perf_counter() - began)


def _commands_together(parcels: Parcels, writer: Writer) -> float:
    """How fast a full queue is worked off; the callers' own work is not counted."""
    # Parcels exist already, so that a command is one event.
    fill(parcels, writer, PARCELS, first=-PARCELS)
    gate = threading.Event()
    writer.query(gate.wait)
    futures = [weigh(parcels, writer, number) for number in range(GROUPED)]
    began = time.perf_counter()
    gate.set()
    futures[-1].result()
    return GROUPED / (time.perf_counter() - began)


def fill(parcels: Parcels, writer: Writer, count: int, first: int = 0) -> None:
    """Record so many events without outrunning the writer's queue."""
    for start in range(first, first + count, PARCELS):
        stop = min(start + PARCELS, first + count)
        wait([weigh(parcels, writer, number) for number in range(start, stop)])


def _raw_inserts(url: str, name: str, rows: list[Recorded]) -> float:
    """The same rows in the same groups, prepared beforehand: what the database can take."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(schema.ddl(name, connection.info.user).encode())
    store = Store(url, name)
    head = Leader(store, "bench", 60_000).acquire()
    assert head is not None
    groups = []
    for start in range(0, len(rows), GROUP_MAX):
        events = rows[start : start + GROUP_MAX]
        answers = [(f"key-{event.position}", bytes(32), b"{}") for event in events]
        groups.append(Group(events=events, answers=answers))
    began = time.perf_counter()
    for group in groups:
        last = group.events[-1]
        after = Head(head.epoch, last.position, last.hash)
        store.commit(head, group, after)
        head = after
    seconds = time.perf_counter() - began
    store.close()
    return len(rows) / seconds
