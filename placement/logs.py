"""What workloads print, in a table beside the event log: bulky, bounded, and not history.

Output has one order, the offset in bytes from its start. A node sends again whatever was not
answered, so what is stored already is dropped; a hole would shift everything after it, so it is
refused with the offset that is wanted. Of each lease the newest ``BYTES_MAX`` are kept.
"""

from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from chassis.errors import Refused, Unavailable

BYTES_MAX = 16 * 1024 * 1024
READ_BYTES_MAX = 256 * 1024

Pool = ConnectionPool[psycopg.Connection[TupleRow]]


def ddl(schema: str, role: str) -> str:
    """The table, made by whoever provisions the service's schema."""
    return f"""
create table if not exists {schema}.log_chunks (
    lease_id text not null,
    start bigint not null,
    data bytea not null,
    primary key (lease_id, start)
);
grant select, insert, delete on {schema}.log_chunks to {role};
"""


@dataclass(frozen=True)
class Chunk:
    lease_id: str
    offset: int
    data: bytes


class LogChunks:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def append(self, chunks: list[Chunk]) -> None:
        """All of them or none."""
        try:
            with self._pool.connection() as connection, connection.transaction():
                for chunk in chunks:
                    _append(connection, chunk)
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise Unavailable("the database is away; send the output again") from error

    def read(self, lease_id: str, offset: int) -> Chunk:
        """What is stored from ``offset``, up to READ_BYTES_MAX; empty data at the end.

        The answer begins later than asked if the oldest output is gone.
        """
        try:
            with self._pool.connection() as connection:
                rows = connection.execute(
                    _READ, {"lease": lease_id, "offset": offset, "bytes": READ_BYTES_MAX}
                ).fetchall()
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise Unavailable("the database is away; try again") from error
        if not rows:
            return Chunk(lease_id, offset, b"")
        start = max(offset, rows[0][0])
        whole = b"".join(data for _, data in rows)
        return Chunk(lease_id, start, whole[start - rows[0][0] :])


def _append(connection: psycopg.Connection[TupleRow], chunk: Chunk) -> None:
    # Two calls about one lease, such as a retry that overtakes, take turns.
    connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (chunk.lease_id,))
    row = connection.execute(_END, (chunk.lease_id,)).fetchone()
    stored = row[0] if row else 0
    if chunk.offset > stored:
        raise Refused(
            f"output from {stored} to {chunk.offset} is missing",
            code="LOG_GAP",
            expected=str(stored),
        )
    fresh = chunk.data[stored - chunk.offset :]
    if not fresh:
        return
    connection.execute(
        "insert into log_chunks (lease_id, start, data) values (%s, %s, %s)",
        (chunk.lease_id, stored, fresh),
    )
    connection.execute(_TRIM, (chunk.lease_id, stored + len(fresh) - BYTES_MAX))


_END = """
select start + length(data) from log_chunks where lease_id = %s order by start desc limit 1
"""

_TRIM = "delete from log_chunks where lease_id = %s and start + length(data) <= %s"

# The chunk that the offset falls into, and those after it until there are enough bytes.
_READ = """
select start, data from (
    select start, data, sum(length(data)) over (order by start) - length(data) as before
    from log_chunks
    where lease_id = %(lease)s and start >= coalesce(
        (select max(start) from log_chunks where lease_id = %(lease)s and start <= %(offset)s), 0)
    order by start
    limit 64
) as following
where before < %(bytes)s and start + length(data) > %(offset)s
order by start
"""
