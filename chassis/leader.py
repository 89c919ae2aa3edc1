"""One writer per shard, chosen in PostgreSQL.

The head of a shard names its holder until an instant of the database's clock. A holder that
stops renewing is succeeded, and every succession raises the epoch that each commit checks: an
old leader that wakes up late cannot write. A process that restarts under the same name takes
over at once, because its predecessor of that name is fenced by the new epoch all the same.
"""

import threading
from collections.abc import Callable

import psycopg
from psycopg_pool import PoolTimeout

from chassis.canonical import GENESIS
from chassis.store import Head, Store


class Leader:
    def __init__(self, store: Store, holder: str, ttl_ms: int) -> None:
        self._store = store
        self._holder = holder
        self._ttl_ms = ttl_ms
        self._stopping = threading.Event()
        self.epoch = 0

    def acquire(self) -> Head | None:
        """Become the writer if there is none."""
        values = {"shard": self._store.shard, "holder": self._holder, "ttl_ms": self._ttl_ms}
        with self._store.pool.connection() as connection:
            row = connection.execute(_ACQUIRE, {**values, "genesis": GENESIS}).fetchone()
        if row is None:
            return None
        self.epoch = row[0]
        return Head(row[0], row[1], bytes(row[2]))

    def renew(self) -> bool:
        values = {"shard": self._store.shard, "epoch": self.epoch, "ttl_ms": self._ttl_ms}
        with self._store.pool.connection() as connection:
            return connection.execute(_RENEW, values).rowcount == 1

    def keep(self, lost: Callable[[], None]) -> None:
        """Renew in the background until ``resign``; call ``lost`` when somebody took over."""
        threading.Thread(target=self._renew_often, args=(lost,), daemon=True).start()

    def _renew_often(self, lost: Callable[[], None]) -> None:
        while not self._stopping.wait(self._ttl_ms / 4000):
            try:
                if not self.renew():
                    lost()
                    return
            except (psycopg.OperationalError, PoolTimeout):
                # The database is away. Nobody can commit meanwhile, and nobody can take over.
                continue

    def resign(self) -> None:
        self._stopping.set()
        with self._store.pool.connection() as connection:
            connection.execute(_RESIGN, {"shard": self._store.shard, "epoch": self.epoch})


_ACQUIRE = """
insert into heads as held (shard, epoch, holder, expires_at, position, hash)
values (%(shard)s, 1, %(holder)s, clock_timestamp() + %(ttl_ms)s * interval '1 ms', 0, %(genesis)s)
on conflict (shard) do update
    set epoch = held.epoch + 1, holder = excluded.holder, expires_at = excluded.expires_at
    where held.expires_at < clock_timestamp() or held.holder = excluded.holder
returning epoch, position, hash
"""

_RENEW = """
update heads set expires_at = clock_timestamp() + %(ttl_ms)s * interval '1 ms'
where shard = %(shard)s and epoch = %(epoch)s
"""

_RESIGN = """
update heads set expires_at = 'epoch' where shard = %(shard)s and epoch = %(epoch)s
"""
