"""The ledger: balances as they were, postings, and whether it all adds up."""

from datetime import UTC, datetime

import click

from leasehold.cli import shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Commands, pass_session
from leasehold.cli.session import Session


@click.group(cls=Commands)
def ledger() -> None:
    """Look at balances, as they are or were, and at postings."""


@ledger.command()
@TENANT_OPTION
@click.option("--as-of", default="", metavar="TIME", help="What took effect until then.")
@click.option("--as-known", default="", metavar="TIME", help="What was recorded until then.")
@pass_session
def balances(session: Session, tenant: str, as_of: str, as_known: str) -> None:
    """Show the balance of every account: debits minus credits.

    TIME is ISO 8601, such as 2026-11-01 or 2026-11-01T12:00:00Z; without a zone it is UTC.
    """
    answer = session.client.get(
        "/v1/ledger/balances",
        tenant=tenant_of(session, tenant),
        as_of=_micros(as_of),
        as_known=_micros(as_known),
    )
    rows = [
        [one["account"], shown.money(one["amount_nanos"], one["currency"])]
        for one in answer["balances"]
    ]
    session.show(answer, shown.table(["ACCOUNT", ">BALANCE"], rows))


@ledger.command()
@TENANT_OPTION
@click.option("--after", default=0, metavar="POSITION", help="Begin after this position.")
@pass_session
def postings(session: Session, tenant: str, after: int) -> None:
    """List postings in the order of the log, a page at a time."""
    answer = session.client.get(
        "/v1/ledger/postings", tenant=tenant_of(session, tenant), after=str(after)
    )
    rows = [
        [
            one["position"],
            shown.moment(one["at"]),
            one["topic"],
            one["account"],
            shown.money(one["amount_nanos"], one["currency"]),
        ]
        for one in answer["entries"]
    ]
    more = [f"More: --after {answer['next_after']}"] if answer["next_after"] else []
    columns = [">POSITION", "AT", "EVENT", "ACCOUNT", ">AMOUNT"]
    session.show(answer, shown.table(columns, rows), *more)


@ledger.command()
@pass_session
def verify(session: Session) -> None:
    """Fold the whole ledger again; exit code 1 if it does not add up."""
    answer = session.client.get("/v1/ledger/check")
    faults = [f"✗ {shown.plain(fault)}" for fault in answer["faults"]]
    right = f"✓ {answer['events']} transactions up to {answer['position']} balance"
    session.show(answer, *(faults or [right]))
    if faults:
        click.get_current_context().exit(int(Exit.NEGATIVE))


def _micros(text: str) -> str:
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(f"{text!r} is no time", Exit.USAGE, code="TIME") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
