"""A service's log in PostgreSQL: the truth.

Everything that follows from a group of commands is written by one statement: events, answers,
cursors, parked events and the head of the chain. The statement begins by moving the head, and
moves it only if this writer's epoch still holds and nobody has written in between; otherwise
nothing at all is written. Positions are therefore in commit order and without gaps.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from chassis.arrays import columns, register
from chassis.canonical import GENESIS
from chassis.events import Recorded

# Connection lost, resources gone, operator intervention: states that pass.
_OUTAGES = {"08", "53", "57"}

P = ParamSpec("P")
T = TypeVar("T")


class Fenced(Exception):
    """Another writer owns the shard; what was tried is not written."""


def is_outage(error: Exception) -> bool:
    """Whether the database was away, rather than answering that it will not do this."""
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate is None or error.sqlstate[:2] in _OUTAGES
    return isinstance(error, PoolTimeout)


class Unsafe(Exception):
    """The database is set up so that it could lose what it acknowledged."""


class Head(NamedTuple):
    """The end of a log: who may write on, and from where."""

    epoch: int = 0
    position: int = 0
    hash: bytes = GENESIS


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a source's log has been applied, and its chain hash there."""

    source: str
    position: int
    incarnation: str
    hash: bytes
    # Where the cursor must be when it is moved to ``position``; not stored.
    after: int


@dataclass(frozen=True, slots=True)
class Parked:
    """An event of another service that could not be applied."""

    source: str
    position: int
    aggregate_id: str
    topic: str
    cause: str
    data: bytes


@dataclass(slots=True)
class Group:
    """What one commit writes."""

    events: list[Recorded] = field(default_factory=list)
    answers: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    parked: list[Parked] = field(default_factory=list)
    unparked: list[tuple[str, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.events or self.answers or self.cursors or self.parked or self.unparked)


def _reconnecting(
    method: Callable[Concatenate["Store", P], T],
) -> Callable[Concatenate["Store", P], T]:
    """A read on a connection that died is tried once more on a new one."""

    def attempt(self: "Store", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except psycopg.OperationalError:
            return method(self, *args, **kwargs)

    return attempt


class Store:
    def __init__(self, url: str, service: str, shard: int = 0) -> None:
        self.service = service
        self.shard = shard
        self._url = url
        self._writing: psycopg.Connection[Any] | None = None
        self.pool = ConnectionPool(
            url,
            kwargs={"autocommit": True, "options": f"-c search_path={service}"},
            check=ConnectionPool.check_connection,
            min_size=1,
            max_size=6,
            timeout=10,
            open=True,
        )

    def close(self) -> None:
        self.pool.close()
        if self._writing is not None:
            self._writing.close()

    # Writing: one thread, one connection.

    def commit(self, before: Head, group: Group, after: Head) -> None:
        """Write the group or raise Fenced. An OperationalError leaves the outcome unknown."""
        cursors = [(c.source, c.position, c.incarnation, c.hash) for c in group.cursors.values()]
        parked = [
            (p.source, p.position, p.aggregate_id, p.topic, p.cause, p.data) for p in group.parked
        ]
        parameters = (
            (after.position, after.hash, self.shard, before.epoch, before.position)
            + columns(group.events, "qtittttbb")
            + columns(group.answers, "tbb")
            + columns(cursors, "tqtb")
            + columns(parked, "tqtttb")
            + columns(group.unparked, "tq")
        )
        row = self._writer_connection().execute(_COMMIT, parameters, prepare=True).fetchone()
        if row is None or row[0] != 1:
            raise Fenced(f"{self.service} shard {self.shard} has another writer")

    def is_written(self, group: Group, after: Head) -> bool:
        """Whether a commit whose answer was lost took place."""
        if group.events:
            last = self.read(after.position - 1, 1)
            return bool(last) and last[0].hash == after.hash
        # Without events the group is only answers and cursors; cursors may be set again.
        return bool(group.answers) and bool(self.answers([group.answers[0][0]]))

    def _writer_connection(self) -> psycopg.Connection[Any]:
        if self._writing is None or self._writing.closed or self._writing.broken:
            self._writing = psycopg.connect(
                self._url, autocommit=True, options=f"-c search_path={self.service}"
            )
            register(self._writing)
        return self._writing

    # Reading.

    @_reconnecting
    def head(self) -> Head:
        with self.pool.connection() as connection:
            row = connection.execute(
                "select epoch, position, hash from heads where shard = %s", (self.shard,)
            ).fetchone()
        return Head(row[0], row[1], bytes(row[2])) if row else Head()

    @_reconnecting
    def incarnation(self) -> str:
        """Changes when the database is restored to an earlier point."""
        with self.pool.connection() as connection:
            row = connection.execute(
                "select system_identifier, timeline_id"
                " from pg_control_system(), pg_control_checkpoint()"
            ).fetchone()
        assert row is not None
        return f"{row[0]}-{row[1]}"

    @_reconnecting
    def read(
        self,
        after: int,
        limit: int,
        *,
        until: int = 0,
        topics: Sequence[str] = (),
        tenant_id: str = "",
        aggregate_id: str = "",
        correlation_id: str = "",
    ) -> list[Recorded]:
        """Events after a position, in order; empty filters select everything."""
        conditions, values = ["shard = %s", "position > %s"], [self.shard, after]
        if not (topics or tenant_id or aggregate_id or correlation_id):
            # Positions have no gaps, so a page is a range: its cost does not grow with the log,
            # whatever the planner believes about the rows after it.
            until = min(until or after + limit, after + limit)
        for condition, value in (
            ("position <= %s", until),
            ("topic = any(%s)", list(topics)),
            ("tenant_id = %s", tenant_id),
            ("aggregate_id = %s", aggregate_id),
            ("correlation_id = %s", correlation_id),
        ):
            if value:
                conditions.append(condition)
                values.append(value)  # type: ignore[arg-type]
        query = f"{_SELECT} where {' and '.join(conditions)} order by position limit {limit:d}"
        with self.pool.connection() as connection, connection.cursor(binary=True) as cursor:
            return list(map(Recorded._make, cursor.execute(query, values).fetchall()))

    def replay(
        self, after: int = 0, *, until: int = 0, size: int = 5_000
    ) -> Iterator[list[Recorded]]:
        """The log in pages; the next one is read while the caller works on this one."""
        with ThreadPoolExecutor(1) as reader:
            page = self.read(after, size, until=until)
            while page:
                following = reader.submit(self.read, page[-1].position, size, until=until)
                yield page
                page = following.result()

    @_reconnecting
    def history(self, aggregate_id: str) -> list[Recorded]:
        with self.pool.connection() as connection, connection.cursor(binary=True) as cursor:
            cursor.execute(f"{_SELECT} where aggregate_id = %s order by version", (aggregate_id,))
            return [Recorded._make(row) for row in cursor]

    @_reconnecting
    def answers(self, keys: list[str]) -> dict[str, tuple[bytes, bytes]]:
        """Payload hash and answer of the commands that were committed under these keys."""
        with self.pool.connection() as connection:
            rows = connection.execute(
                "select key, payload_hash, answer from commands where key = any(%s)", (keys,)
            ).fetchall()
        return {key: (bytes(digest), bytes(answer)) for key, digest, answer in rows}

    @_reconnecting
    def cursor(self, source: str) -> Cursor | None:
        with self.pool.connection() as connection:
            row = connection.execute(
                "select position, incarnation, hash from cursors where shard = %s and source = %s",
                (self.shard, source),
            ).fetchone()
        return Cursor(source, row[0], row[1], bytes(row[2]), row[0]) if row else None

    @_reconnecting
    def parked(self, source: str = "") -> list[Parked]:
        with self.pool.connection() as connection:
            rows = connection.execute(
                "select source, position, aggregate_id, topic, cause, data from parked"
                " where shard = %s and (%s = '' or source = %s) order by source, position",
                (self.shard, source, source),
            ).fetchall()
        return [Parked(*row) for row in rows]

    # Snapshots: a cache of the fold; removing one changes nothing but the time to start.

    @_reconnecting
    def snapshot(self, code: str) -> tuple[int, bytes] | None:
        with self.pool.connection() as connection:
            row = connection.execute(
                "select position, state from snapshots where shard = %s and code = %s",
                (self.shard, code),
            ).fetchone()
        return (row[0], bytes(row[1])) if row else None

    @_reconnecting
    def save_snapshot(self, position: int, code: str, state: bytes) -> None:
        with self.pool.connection() as connection:
            connection.execute(_SNAPSHOT, (self.shard, position, code, state))

    def refuse_unsafe_settings(self) -> None:
        with self.pool.connection() as connection:
            rows = connection.execute(
                "select name, setting from pg_settings where name = any(%s)", (list(_SAFE),)
            ).fetchall()
        wrong = [f"{name} is {value}" for name, value in sorted(rows) if value not in _SAFE[name]]
        if wrong:
            raise Unsafe(f"PostgreSQL could lose acknowledged events: {', '.join(wrong)}; set on")


_SAFE = {
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_apply", "remote_write"),
    "data_checksums": ("on",),
}


_SELECT = (
    "select position, aggregate_id, version, topic, tenant_id, correlation_id, traceparent,"
    " data, hash from events"
)

_COMMIT = """
with fence as (
    update heads set position = %b, hash = %b
    where shard = %b and epoch = %b and position = %b returning shard
), event as (
    insert into events (position, aggregate_id, version, topic, tenant_id, correlation_id,
                        traceparent, data, hash, shard)
    select e.*, fence.shard from fence, unnest(%b::bigint[], %b::text[], %b::int[], %b::text[],
        %b::text[], %b::text[], %b::text[], %b::bytea[], %b::bytea[]) e
), answer as (
    insert into commands (key, payload_hash, answer)
    select a.* from fence, unnest(%b::text[], %b::bytea[], %b::bytea[]) a
), moved as (
    insert into cursors (source, position, incarnation, hash, shard)
    select c.*, fence.shard from fence,
        unnest(%b::text[], %b::bigint[], %b::text[], %b::bytea[]) c
    on conflict (shard, source) do update
        set position = excluded.position, incarnation = excluded.incarnation, hash = excluded.hash
), park as (
    insert into parked (source, position, aggregate_id, topic, cause, data, shard)
    select p.*, fence.shard from fence,
        unnest(%b::text[], %b::bigint[], %b::text[], %b::text[], %b::text[], %b::bytea[]) p
    on conflict do nothing
), unpark as (
    delete from parked using fence, unnest(%b::text[], %b::bigint[]) u (source, position)
    where parked.shard = fence.shard and parked.source = u.source
        and parked.position = u.position
)
select count(*) from fence
"""

_SNAPSHOT = """
insert into snapshots (shard, position, code, state) values (%s, %s, %s, %s)
on conflict (shard) do update
    set position = excluded.position, code = excluded.code, state = excluded.state
"""
