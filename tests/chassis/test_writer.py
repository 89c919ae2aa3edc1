"""The writer on real PostgreSQL: grouping, isolation, idempotency, fencing, ambiguous commits."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from chassis import schema
from chassis.channels import Channels
from chassis.edge import Edge
from chassis.errors import Conflict, CursorMoved, Overloaded, Refused, Unavailable
from chassis.events import Cause
from chassis.leader import Leader
from chassis.memory import MemoryLog
from chassis.snapshots import Snapshots
from chassis.store import Cursor, Fenced, Group, Head, Parked, Store, Unsafe
from chassis.writer import Writer
from tests.chassis.shelf import Depot, Shelf
from tests.waiting import wait_for

TTL_MS = 600


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = new_store(database_url)
    yield store
    store.close()


def test_waiting_commands_commit_together_and_in_order(store: Store) -> None:
    with running(store) as (depot, writer, commits):
        gate = hold_writer(writer)
        futures = [stock(writer, depot, "shf_1", 1) for _ in range(50)]
        gate.set()
        assert [future.result(5) for future in futures] == list(range(1, 51))
        assert (50, 50) in commits


def test_a_refused_command_does_not_disturb_its_group(store: Store) -> None:
    with running(store) as (depot, writer, _):
        gate = hold_writer(writer)
        good, bad, after = (stock(writer, depot, "shf_1", goods) for goods in (40, 100, 40))
        gate.set()
        assert (good.result(5), after.result(5)) == (40, 80)
        with pytest.raises(Refused):
            bad.result(5)
        assert depot.by_tenant.goods == {"ten_1": 80}


def test_an_unexpected_failure_is_isolated_too(store: Store) -> None:
    def broken(at: int) -> None:
        depot.get(Shelf, "shf_1").stock(1, at=at)
        raise ZeroDivisionError

    with running(store) as (depot, writer, _):
        gate = hold_writer(writer)
        failing, fine = writer.command(broken), stock(writer, depot, "shf_1", 2)
        gate.set()
        with pytest.raises(ZeroDivisionError):
            failing.result(5)
        assert fine.result(5) == 2


def test_the_same_key_gets_the_first_answer_and_another_payload_a_conflict(store: Store) -> None:
    with running(store) as (depot, writer, _):
        run = keyed(depot, 3)
        first = writer.command(run, key="k1", payload=b"3").result(5)
        assert writer.command(run, key="k1", payload=b"3").result(5) == first == b"3"
        with pytest.raises(Conflict):
            writer.command(keyed(depot, 4), key="k1", payload=b"4").result(5)
        assert depot.by_tenant.goods == {"ten_1": 3}


def test_the_same_key_twice_in_one_group_has_one_effect(store: Store) -> None:
    with running(store) as (depot, writer, _):
        gate = hold_writer(writer)
        futures = [writer.command(keyed(depot, 3), key="k", payload=b"") for _ in range(20)]
        gate.set()
        assert {future.result(5) for future in futures} == {b"3"}
        assert depot.by_tenant.goods == {"ten_1": 3}


def test_keys_are_kept_across_a_restart(store: Store) -> None:
    with running(store) as (depot, writer, _):
        writer.command(keyed(depot, 3), key="k", payload=b"").result(5)
    with running(store) as (depot, writer, _):
        assert writer.command(keyed(depot, 3), key="k", payload=b"").result(5) == b"3"
        assert depot.by_tenant.goods == {"ten_1": 3}


def test_a_stalled_old_writer_cannot_commit(store: Store, database_url: str) -> None:
    other = new_store(database_url, create=False)
    with running(store) as (depot, writer, _), closing(other):
        wait_for(Leader(other, "other", TTL_MS).acquire, seconds=5, what="succession")
        with pytest.raises(Unavailable):
            stock(writer, depot, "shf_1", 1).result(5)
        with pytest.raises(Unavailable):
            writer.command(lambda at: None)
        assert other.head().position == 1


def test_of_two_writers_only_one_commits(store: Store) -> None:
    head = Leader(store, "one", TTL_MS).acquire()
    assert head is not None
    group, after = one_event(head)
    store.commit(head, group, after)
    with pytest.raises(Fenced):
        store.commit(head, *one_event(head, "shf_2"))


def test_a_live_leader_is_not_succeeded_and_a_restarted_one_is_at_once(store: Store) -> None:
    first = Leader(store, "one", 60_000).acquire()
    assert first is not None
    assert Leader(store, "two", 60_000).acquire() is None
    again = Leader(store, "one", 60_000).acquire()
    assert again is not None
    assert again.epoch == first.epoch + 1


def test_a_lost_answer_is_resolved_by_looking(store: Store) -> None:
    with running(store) as (depot, writer, _):
        commit, failures = store.commit, iter([True])

        def committed_but_unheard(before: Head, group: Group, after: Head) -> None:
            commit(before, group, after)
            if group.events and next(failures, False):
                raise psycopg.OperationalError("connection lost")

        store.commit = committed_but_unheard  # type: ignore[method-assign]
        assert stock(writer, depot, "shf_1", 5).result(5) == 5
        assert stock(writer, depot, "shf_1", 5).result(5) == 10
        assert store.head().position == 3


def test_a_commit_that_failed_is_repeated_when_the_database_is_back(store: Store) -> None:
    with running(store) as (depot, writer, _):
        commit, failures = store.commit, iter([True, True])

        def sometimes(before: Head, group: Group, after: Head) -> None:
            if next(failures, False):
                raise psycopg.OperationalError("server is going away")
            commit(before, group, after)

        store.commit = sometimes  # type: ignore[method-assign]
        assert stock(writer, depot, "shf_1", 5).result(5) == 5
        assert store.head().position == 2


def test_a_killed_connection_is_survived(store: Store, database_url: str) -> None:
    with running(store) as (depot, writer, _):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        assert stock(writer, depot, "shf_1", 5).result(10) == 5


def test_effect_and_cursor_commit_together(store: Store) -> None:
    with running(store) as (depot, writer, _):
        cursor = Cursor("orders", 7, "a-1", b"h", 0)
        writer.command(lambda at: depot.stock("shf_1", 1, at=at), cursor=cursor).result(5)
        assert store.cursor("orders") == replace(cursor, after=7)
        refused = Cursor("orders", 8, "a-1", b"i", 7)
        with pytest.raises(Refused):
            writer.command(lambda at: depot.stock("shf_1", 1000, at=at), cursor=refused).result(5)
        assert store.cursor("orders") == replace(cursor, after=7)


def test_an_event_cannot_overtake_one_that_failed(store: Store) -> None:
    with running(store) as (depot, writer, _):
        gate = hold_writer(writer)
        failing, following = (
            writer.command(
                lambda at, goods=goods: depot.stock("shf_1", goods, at=at),
                cursor=Cursor("orders", position, "a", b"h", position - 1),
            )
            for position, goods in ((1, 1000), (2, 1))
        )
        gate.set()
        with pytest.raises(Refused):
            failing.result(5)
        with pytest.raises(CursorMoved):
            following.result(5)
        assert store.cursor("orders") is None


def test_parking_and_unparking_commit_with_their_commands(store: Store) -> None:
    with running(store) as (depot, writer, _):
        parked = Parked("orders", 8, "ord_1", "orders.order.placed", "cannot be read", b"{}")
        cursor = Cursor("orders", 8, "a", b"h", 0)
        writer.command(lambda at: None, park=parked, cursor=cursor).result(5)
        assert store.parked() == [parked]
        writer.command(lambda at: depot.stock("shf_1", 1, at=at), unpark=("orders", 8)).result(5)
        assert store.parked() == []


def test_a_query_sees_committed_state_only(store: Store) -> None:
    with running(store) as (depot, writer, _):
        stock(writer, depot, "shf_1", 4).result(5)
        assert writer.query(lambda: dict(depot.by_tenant.goods)).result(5) == {"ten_1": 4}


def test_too_many_waiting_commands_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chassis.writer.WAITING_MAX", 3)
    with running(store) as (depot, writer, _):
        gate = hold_writer(writer)
        futures = [stock(writer, depot, "shf_1", 1) for _ in range(3)]
        with pytest.raises(Overloaded):
            stock(writer, depot, "shf_1", 1)
        gate.set()
        assert [future.result(5) for future in futures] == [1, 2, 3]


def test_a_restart_from_a_snapshot_equals_a_rebuild_from_zero(store: Store) -> None:
    with running(store) as (depot, writer, _):
        stock(writer, depot, "shf_1", 4).result(5)
        snapshot = writer.query(depot.snapshot).result(5)
        store.save_snapshot(depot.head.position, depot.code(), snapshot)
        stock(writer, depot, "shf_1", 1).result(5)
        live = writer.query(depot.state).result(5)
    snapshotted, rebuilt = Depot(store), Depot(store)
    snapshotted.start_from_snapshot()
    assert snapshotted.head.position == 2
    for depot in (snapshotted, rebuilt):
        depot.catch_up()
        assert depot.state() == live


def test_a_running_service_leaves_a_snapshot_when_its_log_has_grown(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chassis.snapshots.EVENTS", 2)

    async def snapshots_taken() -> list[bool]:
        taken = Snapshots(depot, store, Edge("depot", writer, Channels(None, {})))  # type: ignore[arg-type]
        found = []
        for _ in range(3):
            found.append(await taken.take_if_due())
            await asyncio.wrap_future(stock(writer, depot, "shf_1", 1))
        return found

    with running(store) as (depot, writer, _):
        assert asyncio.run(snapshots_taken()) == [False, False, True]
        live = writer.query(depot.state).result(5)
    killed = Depot(store)
    killed.start_from_snapshot()
    assert killed.head.position == 3
    killed.catch_up()
    assert killed.state() == live


def test_a_snapshot_of_other_code_is_not_used(store: Store) -> None:
    store.save_snapshot(9, "other", b"{}")
    depot = Depot(store)
    depot.start_from_snapshot()
    assert depot.head.position == 0


def test_time_never_goes_back(store: Store) -> None:
    with running(store) as (depot, writer, _):
        stamps = [writer.command(lambda at: at).result(5) for _ in range(20)]
        assert stamps == sorted(set(stamps))


def test_a_database_that_could_lose_events_is_refused(store: Store, database_url: str) -> None:
    store.refuse_unsafe_settings()
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'alter database "{name}" set synchronous_commit = off')
    careless = new_store(database_url, create=False)
    with closing(careless), pytest.raises(Unsafe, match="synchronous_commit is off"):
        careless.refuse_unsafe_settings()


# What the tests stand on.


@contextmanager
def running(store: Store) -> Iterator[tuple[Depot, Writer, list[tuple[int, int]]]]:
    """A depot with one shelf and its writer, as the leader of the shard."""
    head = Leader(store, "here", TTL_MS).acquire()
    assert head is not None
    depot = Depot(store)
    depot.catch_up()
    commits: list[tuple[int, int]] = []
    writer = Writer(depot, store, head, on_commit=lambda c, e: commits.append((c, e)))
    writer.start()
    if not head.position:
        writer.command(
            lambda at: depot.mount("shf_1", "ten_1", 100, at=at), cause=Cause("test")
        ).result(5)
    try:
        yield depot, writer, commits
    finally:
        writer.stop()


def new_store(url: str, create: bool = True) -> Store:
    if create:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(schema.ddl("depot", connection.info.user))
    return Store(url, "depot")


def hold_writer(writer: Writer) -> threading.Event:
    """Keeps the writer busy until the event is set, so that commands pile up behind it."""
    gate, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        gate.wait(5)

    writer.query(wait)
    begun.wait(5)
    return gate


def stock(writer: Writer, depot: Depot, shelf_id: str, goods: int) -> Future[Any]:
    return writer.command(lambda at: depot.stock(shelf_id, goods, at=at))


def keyed(depot: Depot, goods: int) -> Any:
    return lambda at: str(depot.stock("shf_1", goods, at=at)).encode()


def one_event(head: Head, shelf_id: str = "shf_1") -> tuple[Group, Head]:
    depot = Depot(MemoryLog())
    depot.mount(shelf_id, "ten_1", 1, at=1)
    rows, after = depot.record(Cause(), head)
    return Group(events=rows), after
