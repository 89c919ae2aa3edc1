"""All logs of the platform in another database, where they may be falsified without harm."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from chassis import canonical, schema
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import SERVICES

NAME = "audit_copy"
TABLES = ("events", "heads", "cursors")
Connection = psycopg.Connection[Any]


class Copy:
    """All logs in another database, and a state folder that names it instead of the real one."""

    def __init__(self, connection: Connection, state: Path) -> None:
        self.connection = connection
        self.state = state

    def middle(self, service: str) -> int:
        row = self.connection.execute(f"select position / 2 + 1 from {service}.heads").fetchone()
        assert row is not None
        return int(row[0])

    def rewrite(self, service: str, position: int, old: bytes, new: bytes) -> None:
        """Change an event and everything that follows from it, as an insider would."""
        rows = self.connection.execute(
            f"select position, data, hash from {service}.events where position >= %s - 1"
            " order by position",
            (position,),
        ).fetchall()
        hash_ = rows[0][2] if position > 1 else canonical.GENESIS
        for place, data, _ in rows[1:] if position > 1 else rows:
            if place == position:
                assert old in data
                data = data.replace(old, new)
            hash_ = canonical.chained(hash_, data)
            self.connection.execute(
                f"update {service}.events set data = %s, hash = %s where position = %s",
                (data, hash_, place),
            )
        self.connection.execute(f"update {service}.heads set hash = %s", (hash_,))


@contextmanager
def copied(platform: Platform, state: Path) -> Iterator[Copy]:
    url = platform.addresses()["postgres_url"]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"drop database if exists {NAME} with (force)")
        admin.execute(f"create database {NAME}")
        try:
            copied_url = urlunsplit(urlsplit(url)._replace(path=f"/{NAME}"))
            with psycopg.connect(copied_url, autocommit=True) as connection:
                _fill(url, connection)
                _make_state(platform, copied_url, state)
                yield Copy(connection, state)
        finally:
            admin.execute(f"drop database if exists {NAME} with (force)")


def _fill(source_url: str, target: Connection) -> None:
    with psycopg.connect(source_url) as source:
        source.execute("set transaction isolation level repeatable read")
        for service in SERVICES:
            target.execute(schema.ddl(service, "current_user").encode())
            for table in TABLES:
                name = sql.Identifier(service, table)
                out = sql.SQL("copy {} to stdout (format binary)").format(name)
                into = sql.SQL("copy {} from stdin (format binary)").format(name)
                with source.cursor().copy(out) as rows, target.cursor().copy(into) as copied:
                    for data in rows:
                        copied.write(data)


def _make_state(platform: Platform, postgres_url: str, folder: Path) -> None:
    shutil.copytree(platform.identities.of("operator"), folder / "identity" / "operator")
    addresses = {**platform.addresses(), "postgres_url": postgres_url}
    (folder / "platform.json").write_text(json.dumps(addresses))
