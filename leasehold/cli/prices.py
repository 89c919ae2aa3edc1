"""What a GPU costs: the prices in force, and publishing one. A price is never changed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from leasehold.cli import shown
from leasehold.cli.client import Client
from leasehold.cli.costs import amount_given
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Command, Commands, key_option, pass_session
from leasehold.cli.session import Session

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@click.command(cls=Command)
@pass_session
def prices(session: Session) -> None:
    """List what each GPU model costs."""
    answer = session.client.get("/v1/prices")
    session.show(answer, _drawn(answer["prices"]))


def _drawn(prices: list[dict[str, Any]]) -> Any:
    rows = [
        [
            one["gpu_model"],
            shown.price(one["price_nanos"], one["per_gpu_us"], one["currency"]),
            shown.moment(one["effective_at"]),
            one["price_version"],
        ]
        for one in prices
    ]
    return shown.table(["MODEL", ">PRICE", "FROM", ">VERSION"], rows)


@click.group(cls=Commands)
def price() -> None:
    """Publish prices."""


@key_option
@price.command()
@click.argument("model")
@click.argument("amount", metavar="PRICE")
@click.option("--currency", default="", metavar="CODE", help="If not that of the prices so far.")
@click.option(
    "--from", "begins", default="", metavar="TIME", help="Not before, such as 2030-01-31T00:00Z."
)
@pass_session
def publish(session: Session, model: str, amount: str, currency: str, begins: str) -> None:
    """Publish what one GPU of a model costs for an hour.

    As operator or finance. PRICE is decimal, such as 2.49. It holds from now on, or from the time
    given; leases that run keep the price with which they began.
    """
    client = session.client
    document = {
        "gpu_model": model,
        "price_nanos": str(amount_given(amount)),
        "effective_at": _micros(begins),
    }
    document["currency"] = currency or _currency(client)
    published = client.change("POST", "/v1/prices", document, key=session.key)
    session.show(published, _drawn([published]))


def _currency(client: Client) -> str:
    """The price book has one currency; before the first price nothing says which."""
    known = client.get("/v1/prices")["prices"]
    if not known:
        raise Failure("name the currency with --currency", Exit.USAGE, code="CURRENCY")
    return str(known[0]["currency"])


def _micros(text: str) -> int:
    """A moment as microseconds, 0 if none was given; without a zone it is in UTC."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(
            f"{text!r} is no time, such as 2030-01-31T00:00Z", Exit.USAGE, code="TIME"
        ) from None
    in_utc = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (in_utc - _EPOCH) // timedelta(microseconds=1)
