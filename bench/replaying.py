"""Rebuilding from the log with its chain checked, against the library's own repository."""

import time
from typing import Any

import psycopg
from eventsourcing.application import Application as LibraryApplication
from eventsourcing.domain import Aggregate as LibraryAggregate
from eventsourcing.domain import event
from psycopg.conninfo import conninfo_to_dict

from bench.parcels import Parcels
from bench.results import Results, Row
from bench.writing import fill, writer_on
from chassis.store import Store

EVENTS = 100_000
LIBRARY_PARCELS = 400
LIBRARY_EVENTS_EACH = 50
ROUNDS = 3


class StockParcel(LibraryAggregate):
    """The same facts as ``bench.parcels.Parcel`` on the library as it comes."""

    @event("Posted")
    def __init__(self, tenant_id: str, label: str) -> None:
        self.tenant_id = tenant_id
        self.label = label
        self.grams = 0

    @event("Weighed")
    def weigh(self, grams: int, scale: str) -> None:
        self.grams += grams


def measure(url: str, results: Results) -> None:
    with writer_on(url, "replayed") as (parcels, writer, _):
        fill(parcels, writer, EVENTS)
        live = writer.query(parcels.state).result()
    # Interleaved, and the best of each counts: the machine is shared.
    application, ids = _library(url)
    ours, library = 0.0, 0.0
    for _ in range(ROUNDS):
        ours = max(ours, _rebuild(url, live))
        library = max(library, _library_replay(application, ids))
    application.close()
    results.add(Row("library's repository replay", library, "events/s"))
    results.add(
        Row("replay with chain check", ours, "events/s", ours / library, "the library's", 4)
    )


def _rebuild(url: str, live: bytes) -> float:
    store = Store(url, "replayed")
    fresh = Parcels(store)
    began = time.perf_counter()
    fresh.catch_up()
    seconds = time.perf_counter() - began
    assert fresh.state() == live, "a rebuild must equal the live state"
    store.close()
    return fresh.head.position / seconds


def _library(url: str) -> tuple[LibraryApplication[Any], list[Any]]:
    """The library on its own PostgreSQL recorder, with a repository that has no cache."""
    parts: dict[str, Any] = conninfo_to_dict(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create schema stock")
    application: LibraryApplication[Any] = LibraryApplication(
        {
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "POSTGRES_DBNAME": parts["dbname"],
            "POSTGRES_HOST": parts["host"],
            "POSTGRES_PORT": str(parts["port"]),
            "POSTGRES_USER": parts["user"],
            "POSTGRES_PASSWORD": parts.get("password", ""),
            "POSTGRES_SCHEMA": "stock",
        }
    )
    ids = []
    for _ in range(LIBRARY_PARCELS):
        parcel = StockParcel("ten_1", "fragile")
        for _ in range(LIBRARY_EVENTS_EACH - 1):
            parcel.weigh(5, "north")
        application.save(parcel)
        ids.append(parcel.id)
    return application, ids


def _library_replay(application: LibraryApplication[Any], ids: list[Any]) -> float:
    began = time.perf_counter()
    for parcel_id in ids:
        application.repository.get(parcel_id)
    return len(ids) * LIBRARY_EVENTS_EACH / (time.perf_counter() - began)
