"""Durable commands: one commit each, grouped by the writer, and the database's own limit."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from operator import truediv
from statistics import median

import psycopg

from bench.parcels import Parcels
from bench.results import Results, Row
from chassis import schema
from chassis.events import Recorded
from chassis.leader import Leader
from chassis.store import Store
from chassis.writer import GROUP_MAX, Writer

ALONE = 400
GROUPED = 20_000
PARCELS = 5_000
ROUNDS = 7


def measure(url: str, results: Results) -> None:
    """Short rounds, each of all three in turn; the median ratio counts, for the machine is shared
    and what disturbs one round disturbs its neighbours."""
    alone, grouped, raw = [], [], []
    for number in range(ROUNDS):
        with writer_on(url, f"alone{number}") as (parcels, writer, _):
            alone.append(_commands_one_by_one(parcels, writer))
        with writer_on(url, f"grouped{number}") as (parcels, writer, store):
            grouped.append(_commands_together(parcels, writer))
            rows = [row for page in store.replay() for row in page]
        raw.append(_raw_inserts(url, f"raw{number}", rows))
    results.add(Row("durable commands, one commit each", median(alone), "commands/s"))
    together, each = median(grouped), median(map(truediv, grouped, alone))
    results.add(Row("durable commands, grouped", together, "commands/s", each, "one each", 8))
    # A command here is an event, its answer and its key; raw inserts write the same rows.
    limit = median(map(truediv, grouped, raw))
    results.add(
        Row(
            "the same rows as raw grouped inserts",
            median(raw),
            "commands/s",
            limit,
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
    """The same rows in the same groups by plain SQL, prepared beforehand: nothing is decided,
    hashed, fenced or answered."""
    groups = []
    for start in range(0, len(rows), GROUP_MAX):
        events = rows[start : start + GROUP_MAX]
        keys = [f"key-{event.position}" for event in events]
        answers = [keys, [bytes(32)] * len(keys), [b"{}"] * len(keys)]
        groups.append(([list(column) for column in zip(*events, strict=True)], answers))
    options = f"-c search_path={name}"
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        connection.execute(schema.ddl(name, connection.info.user).encode())
        began = time.perf_counter()
        for events_columns, answer_columns in groups:
            with connection.transaction():
                connection.execute(_RAW_EVENTS, events_columns, prepare=True)
                connection.execute(_RAW_ANSWERS, answer_columns, prepare=True)
        return len(rows) / (time.perf_counter() - began)


_RAW_EVENTS = """
insert into events (position, aggregate_id, version, topic, tenant_id, correlation_id, traceparent,
                    data, hash, shard)
select e.*, 0 from unnest(%b::bigint[], %b::text[], %b::int[], %b::text[], %b::text[], %b::text[],
                          %b::text[], %b::bytea[], %b::bytea[]) e
"""
_RAW_ANSWERS = "insert into commands select * from unnest(%b::text[], %b::bytea[], %b::bytea[])"
