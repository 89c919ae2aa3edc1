"""The example consumers, on the log of a real billing service over mutual TLS."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import psycopg
import pytest

from chassis.identity import Identity
from chassis.log_service import LogService
from chassis.rpc import serve_grpc
from chassis.store import Store
from examples.consumers import analytics, finance
from examples.consumers.platform_log import BrokenChain, connected
from leasehold.authorisation import TABLE
from leasehold.billing.v1.billing_service_pb2 import IssueInvoiceRequest
from leasehold.chassis.v1.log_service_pb2_grpc import (
    LogServiceStub,
    add_LogServiceServicer_to_server,
)
from tests.billing.serving import Service, serving
from tests.billing.test_api import BOB, funded, ran
from tests.billing.world import SECOND

Visit = Callable[[LogServiceStub], None]


async def visited(folder: Path, service: Service, visit: Visit) -> None:
    """Let a consumer read the service's log, as one outside of it."""
    store = service.billing.log
    assert isinstance(store, Store)
    offered = LogService(service.billing, store, service.edge, [])
    shown = Identity(folder / "billing")
    servicers = [(add_LogServiceServicer_to_server, offered)]
    server = await serve_grpc("127.0.0.1", 0, shown, servicers, TABLE)

    def go() -> None:
        with connected(f"127.0.0.1:{server.port}", folder / "operator") as log:
            visit(log)

    try:
        await asyncio.to_thread(go)
    finally:
        await server.stop(0)


def test_the_follower_keeps_the_ledgers_balances_and_goes_on_where_it_ended(
    tmp_path: Path, database_url: str
) -> None:
    books = tmp_path / "books.json"

    async def scenario() -> None:
        async with serving(tmp_path / "mesh", database_url) as service:
            await funded(service)
            await visited(tmp_path / "mesh", service, lambda log: finance.follow(log, books))
            halfway = json.loads(books.read_text())["position"]
            await ran(service, 10 * SECOND)
            await visited(tmp_path / "mesh", service, lambda log: finance.follow(log, books))
            kept = json.loads(books.read_text())
            assert kept["position"] > halfway > 0
            ledger = await service.seen(lambda billing: dict(billing.ledger.balances["USD"]))
            open_ = {name: amount for name, amount in kept["balances"]["USD"].items() if amount}
            assert open_ == ledger

    asyncio.run(scenario())


def test_the_follower_stops_when_history_was_changed(tmp_path: Path, database_url: str) -> None:
    books = tmp_path / "books.json"

    async def scenario() -> None:
        async with serving(tmp_path / "mesh", database_url) as service:
            await funded(service)
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute("set session_replication_role = replica")
                connection.execute(
                    "update billing.events set data = convert_to(replace(convert_from(data,"
                    " 'UTF8'), '10000000000', '90000000000'), 'UTF8') where topic like '%topped_up'"
                )
            with pytest.raises(BrokenChain, match="does not continue"):
                await visited(tmp_path / "mesh", service, lambda log: finance.follow(log, books))

    asyncio.run(scenario())


def test_an_event_that_makes_money_is_noticed() -> None:
    event = {
        "currency": "USD",
        "meta": {"topic": "billing.account.topped_up", "aggregate_id": "acc_1"},
        "postings": [{"account": "asset:cash", "amount_nanos": 1}],
    }
    with pytest.raises(finance.Unbalanced):
        finance.enter({}, event)


def test_the_lake_has_every_charge_and_says_what_it_was_made_from(
    tmp_path: Path, database_url: str
) -> None:
    lake = tmp_path / "lake"

    async def scenario() -> None:
        async with serving(tmp_path / "mesh", database_url) as service:
            await funded(service)
            await ran(service, 10 * SECOND)
            issued = await service.gateway.IssueInvoice(IssueInvoiceRequest(), **BOB)
            await visited(
                tmp_path / "mesh", service, lambda log: analytics.write(log, lake) and None
            )
            (total,) = duckdb.sql(
                f"select sum(BilledCost) from '{lake}/*/charges.parquet'"
            ).fetchall()[0]
            assert total * 10**9 == issued.invoice.total_nanos
            (first,) = lake.glob("*/charges.parquet")
            once = first.read_bytes()
            await visited(
                tmp_path / "mesh", service, lambda log: analytics.write(log, lake) and None
            )
            assert first.read_bytes() == once
            head = await asyncio.to_thread(service.billing.log.head)
            assert json.loads((lake / "_manifest.json").read_text())["hash"] == head.hash.hex()

    asyncio.run(scenario())
