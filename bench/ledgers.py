"""Other ledgers on the same PostgreSQL, each as it is meant to be used: one commit per transfer.

``Transfers`` is the design of SQL ledgers such as pgledger, written here: a function that locks
both accounts in a fixed order, moves the balances and writes two entries. ``Hordak`` is the
library django-hordak, which checks each transaction with triggers.
"""

import time
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

ACCOUNTS = 100

_SCHEMA = """
create schema transfers;
create table transfers.account (
    id bigint primary key, balance numeric(38,0) not null default 0,
    version bigint not null default 0
);
create table transfers.transfer (
    id bigint generated always as identity primary key, source bigint not null references
    transfers.account, target bigint not null references transfers.account,
    amount numeric(38,0) not null check (amount > 0), at timestamptz not null default now()
);
create table transfers.entry (
    id bigint generated always as identity primary key,
    transfer bigint not null references transfers.transfer,
    account bigint not null references transfers.account, amount numeric(38,0) not null,
    before numeric(38,0) not null, after numeric(38,0) not null, version bigint not null
);
create function transfers.move(from_id bigint, to_id bigint, moved numeric) returns bigint
language plpgsql as $$
declare made bigint; was transfers.account; number bigint;
begin
    perform 1 from transfers.account where id in (from_id, to_id) order by id for update;
    insert into transfers.transfer (source, target, amount)
        values (from_id, to_id, moved) returning id into made;
    update transfers.account set balance = balance - moved, version = version + 1
        where id = from_id returning * into was;
    insert into transfers.entry (transfer, account, amount, before, after, version)
        values (made, from_id, -moved, was.balance + moved, was.balance, was.version);
    update transfers.account set balance = balance + moved, version = version + 1
        where id = to_id returning * into was;
    insert into transfers.entry (transfer, account, amount, before, after, version)
        values (made, to_id, moved, was.balance - moved, was.balance, was.version);
    return made;
end $$;
insert into transfers.account (id) select generate_series(1, 100);
"""


class Transfers:
    """One function call and one commit for each transfer of two postings."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_SCHEMA)
        self._url = url

    def postings_per_second(self, transfers: int) -> float:
        with psycopg.connect(self._url, autocommit=True) as connection:
            began = time.perf_counter()
            for number in range(transfers):
                source = number % ACCOUNTS + 1
                connection.execute(
                    "select transfers.move(%s, %s, 1037500)", (source, source % ACCOUNTS + 1)
                )
            return 2 * transfers / (time.perf_counter() - began)


class Hordak:
    """The library on a database of its own, through its ``transfer_to``."""

    def __init__(self, url: str) -> None:
        parts: dict[str, Any] = conninfo_to_dict(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier("hordak")))
        self._configure(parts)
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    @staticmethod
    def _configure(parts: dict[str, Any]) -> None:
        import django
        from django.conf import settings

        settings.configure(
            INSTALLED_APPS=[
                "django.contrib.contenttypes", "django.contrib.auth", "mptt", "djmoney", "hordak",
            ],
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "NAME": "hordak",
                    "HOST": parts["host"],
                    "PORT": str(parts["port"]),
                    "USER": parts["user"],
                    "PASSWORD": parts.get("password", ""),
                    "CONN_MAX_AGE": None,
                }
            },
            DEFAULT_CURRENCY="USD",
            CURRENCIES=["USD"],
            HORDAK_DECIMAL_PLACES=9,
            HORDAK_MAX_DIGITS=30,
            USE_TZ=True,
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        )  # fmt: skip
        django.setup()

    def postings_per_second(self, transfers: int) -> float:
        from hordak.models import Account
        from moneyed import Money

        accounts = [
            Account.objects.create(name=f"a{number}", type="AS", currencies=["USD"])
            for number in range(10)
        ]
        amount = Money(Decimal("0.001037500"), "USD")
        began = time.perf_counter()
        for number in range(transfers):
            accounts[number % 10].transfer_to(accounts[(number + 1) % 10], amount)
        seconds = time.perf_counter() - began
        from django.db import connection

        connection.close()
        return 2 * transfers / seconds
