"""The price book: list, show, publish, and what the past would have cost under another one.

A document is sent as it is; whether it makes sense, the gateway and billing say.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from leasehold.cli import shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Commands, key_option, pass_session
from leasehold.cli.session import Session

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_COLUMNS = ["MODEL", "FORM", "REGION", "MARKET", ">PRICE", ">TIERS", "FROM", ">VERSION"]


@click.group("price-book", cls=Commands)
def price_book() -> None:
    """List, show and publish prices by SKU, and try others on the past."""


@price_book.command("list")
@pass_session
def list_(session: Session) -> None:
    """List every price ever published."""
    answer = session.client.get("/v1/prices")
    session.show(answer, _drawn(answer["prices"]))


@price_book.command()
@click.argument("version", type=int)
@pass_session
def show(session: Session, version: int) -> None:
    """Show one version of a price with its tiers."""
    prices = session.client.get("/v1/prices")["prices"]
    found = next((one for one in prices if one["price_version"] == version), None)
    if found is None:
        raise Failure(f"no price has version {version}", Exit.NOT_FOUND, code="PRICE_NOT_FOUND")
    session.show(found, _drawn([found]), "", shown.table(_TIERS, _tiers(found)))


@key_option
@price_book.command()
@click.argument("file", type=_FILE)
@pass_session
def publish(session: Session, file: Path) -> None:
    """Publish all prices of a document, as operator or finance, or none of them."""
    answer = session.client.change("POST", "/v1/price-books", _read(file), key=session.key)
    session.show(answer, _drawn(answer["prices"]))


@price_book.command("what-if")
@click.argument("file", type=_FILE)
@click.option("--from", "since", required=True, metavar="TIME", help="Such as 2030-01-01T00:00Z.")
@click.option("--until", required=True, metavar="TIME", help="Not included.")
@TENANT_OPTION
@pass_session
def what_if(session: Session, file: Path, since: str, until: str, tenant: str) -> None:
    """Show what a past period would have cost under the prices of a document.

    As operator or finance. The ledger is only read.
    """
    period = {"from": micros(since), "until": micros(until), "tenant": tenant_of(session, tenant)}
    answer = session.client.change(
        "POST", "/v1/price-books/what-if", {**_read(file), **period}, key=session.new_key()
    )
    rows = [_difference(one) for one in answer["tenants"]]
    session.show(answer, shown.table(["TENANT", ">LEASES", ">WAS", ">WOULD BE", ">MORE"], rows))


def _difference(row: dict[str, Any]) -> list[Any]:
    amounts = (row[f"{name}_nanos"] for name in ("actual", "other", "difference"))
    money = [shown.money(amount, row["currency"]) for amount in amounts]
    return [row["tenant_id"], row["leases"], *money]


def _drawn(prices: list[dict[str, Any]]) -> Any:
    rows = [
        [
            one["gpu_model"],
            one["form"],
            one["region"],
            one["market"],
            shown.price(one["price_nanos"], one["per_gpu_us"], one["currency"]),
            len(one["tiers"]) + 1,
            shown.moment(one["effective_at"]),
            one["price_version"],
        ]
        for one in prices
    ]
    return shown.table(_COLUMNS, rows)


_TIERS = [">FROM GPU-SECONDS", ">PRICE"]


def _tiers(price: dict[str, Any]) -> list[list[str]]:
    first = {**price, "from_gpu_us": 0}
    return [
        [
            shown.seconds(int(tier["from_gpu_us"])),
            shown.price(tier["price_nanos"], tier["per_gpu_us"], price["currency"]),
        ]
        for tier in (first, *price["tiers"])
    ]


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text())
    except ValueError as error:
        raise Failure(f"{file}: {error}", Exit.USAGE, code="DOCUMENT") from None
    if not isinstance(document, dict):
        raise Failure(f"{file} is no price book", Exit.USAGE, code="DOCUMENT")
    return document


def micros(text: str) -> int:
    """A moment as microseconds; without a zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(
            f"{text!r} is no time, such as 2030-01-31T00:00Z", Exit.USAGE, code="TIME"
        ) from None
    in_utc = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (in_utc - _EPOCH) // timedelta(microseconds=1)
