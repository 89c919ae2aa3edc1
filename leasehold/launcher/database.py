"""Each service's place in PostgreSQL: a schema, its tables, and a role that can do little.

Tables belong to whoever provisions, not to the service: a service's role may add to its log and
read it, never change it, and it cannot see another service's schema at all.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from chassis import schema
from leasehold.launcher.state import CannotStart
from placement import logs

DATABASE = "leasehold"


def create_database(server_url: str) -> str:
    """The URL of our own database on a server that is all ours."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        exists = connection.execute("select 1 from pg_database where datname = %s", (DATABASE,))
        if exists.fetchone() is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{DATABASE}"))


def provision(url: str, passwords: Mapping[str, str]) -> dict[str, str]:
    """Make what each service needs; answers the URL by which it connects.

    On a server where the given role may not create roles, every service uses that role, and the
    separation between them is lost.
    """
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            own_roles = may_create_roles(connection)
            return {
                service: _provision(connection, url, service, password if own_roles else None)
                for service, password in passwords.items()
            }
    except psycopg.Error as error:
        place = without_password(url)
        raise CannotStart(f"PostgreSQL at {place} cannot be used: {_one_line(error)}") from error


def may_create_roles(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(
        "select rolsuper or rolcreaterole from pg_roles where rolname = current_user"
    ).fetchone()
    return row is not None and bool(row[0])


def without_password(url: str) -> str:
    parts = urlsplit(url)
    userinfo, at, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=userinfo.partition(":")[0] + at + place))


def _provision(
    connection: psycopg.Connection[Any], url: str, service: str, password: str | None
) -> str:
    if password is None:
        connection.execute(_tables(service, "current_user").encode())
        return url
    role = f"leasehold_{service}"
    known = connection.execute("select 1 from pg_roles where rolname = %s", (role,)).fetchone()
    # What is sent is a verifier: the password itself must not reach the server's log.
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL("{} role {} login password {}").format(
            sql.SQL("alter" if known else "create"), sql.Identifier(role), verifier.decode()
        )
    )
    connection.execute(_tables(service, role).encode())
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}:{quote(password, safe='')}@{place}"))


def _tables(service: str, role: str) -> str:
    beside_the_log = logs.ddl(service, role) if service == "placement" else ""
    return schema.ddl(service, role) + beside_the_log


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
