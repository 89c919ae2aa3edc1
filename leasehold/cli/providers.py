"""The provider's side: what machines cost, whether bills are right, and what is earned on them."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from leasehold.cli import shown
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Command, Commands, key_option, pass_session
from leasehold.cli.session import Session

HOUR_US = 3_600_000_000
_COLUMNS = ("provider_id", "from", "until", "amount")


@click.command(cls=Command)
@click.option(
    "--by", type=click.Choice(["tenant", "sku", "provider"]), default="tenant", show_default=True
)
@click.option("--from", "begin", default="", metavar="TIME", help="UTC hour: 2026-11-18T00.")
@click.option("--until", "end", default="", metavar="TIME", help="UTC hour; now if left out.")
@pass_session
def margin(session: Session, by: str, begin: str, end: str) -> None:
    """Show what was earned on what was rented, warm pool and leaks included."""
    query = {"from": _hour(begin), "until": _hour(end)}
    given = {name: str(value) for name, value in query.items() if value}
    answer = session.client.get("/v1/margin", by=by, **given)
    names = ("revenue", "provider_cost", "warm_pool", "leak", "margin")
    rows = [
        [row["key"], *(shown.money(row[f"{name}_nanos"], row["currency"]) for name in names)]
        for row in answer["rows"]
    ]
    titles = [by.upper(), ">REVENUE", ">LEASED COST", ">WARM POOL", ">LEAK", ">MARGIN"]
    session.show(answer, shown.table(titles, rows))


@click.group(cls=Commands, invoke_without_command=True)
@click.option("--day", default="", metavar="DATE", help="UTC day, such as 2026-11-18.")
@click.pass_context
@pass_session
def match(session: Session, context: click.Context, day: str) -> None:
    """Compare what was metered, leased and billed on a day."""
    if context.invoked_subcommand is not None:
        return
    if not day:
        raise Failure("name the day: --day 2026-11-18", Exit.USAGE, code="DAY")
    answer = session.client.get("/v1/matches", day=day)
    machines = [_machine_row(row) for row in answer["machines"]]
    leases = [_lease_row(row) for row in answer["leases"]]
    session.show(
        answer,
        shown.table(_MACHINES, machines),
        "",
        shown.table(_LEASES, leases),
    )
    if any(row["outcome"] != "MATCHED" for row in (*answer["machines"], *answer["leases"])):
        context.exit(int(Exit.NEGATIVE))


_MACHINES = ["MACHINE", ">HOURS", ">BILLED", ">EXPECTED", ">AMOUNT", ">DIFFERENCE", "OUTCOME"]
_LEASES = ["LEASE", "TENANT", ">LEASED GPU-S", ">METERED GPU-S", ">COST", "OUTCOME"]


def _machine_row(row: dict[str, Any]) -> list[Any]:
    return [
        row["provider_id"],
        shown.duration(row["present_us"]),
        shown.duration(row["billed_us"]),
        shown.money(row["expected_nanos"], row["currency"]),
        shown.money(row["billed_nanos"], row["currency"]),
        shown.money(row["difference_nanos"], row["currency"]),
        shown.styled(row["outcome"]),
    ]


def _lease_row(row: dict[str, Any]) -> list[Any]:
    return [
        row["lease_id"],
        row["tenant_id"],
        shown.seconds(row["leased_gpu_us"]),
        shown.seconds(row["metered_gpu_us"]),
        shown.money(row["provider_cost_nanos"]),
        shown.styled(row["outcome"]),
    ]


@key_option
@match.command()
@click.argument("source")
@click.argument("machine")
@click.option("--day", required=True, metavar="DATE", help="UTC day, such as 2026-11-18.")
@pass_session
def accept(session: Session, source: str, machine: str, day: str) -> None:
    """Post the difference of one machine and day: the books then say what was billed."""
    answer = session.client.change(
        "POST",
        "/v1/matches/accept",
        {"source_id": source, "provider_id": machine},
        key=session.key,
        day=day,
    )
    session.show(answer, f"{shown.money(answer['posted_nanos'])} posted for {machine} on {day}.")


@click.group("provider-bill", cls=Commands)
def provider_bill() -> None:
    """Bring in what providers bill."""


@key_option
@provider_bill.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--source", required=True, metavar="SOURCE", help="Whose bill it is.")
@click.option("--bill", required=True, metavar="NAME", help="The provider's number of the bill.")
@click.option("--currency", default="USD", show_default=True)
@pass_session
def import_(session: Session, file: Path, source: str, bill: str, currency: str) -> None:
    """Import a bill, CSV or JSON: provider_id, from, until, amount.

    Times are ISO 8601 in UTC. Importing the same bill again changes nothing.
    """
    body = {"bill_id": bill, "source_id": source, "currency": currency, "lines": _lines(file)}
    answer = session.client.change("POST", "/v1/provider-bills", body, key=session.key)
    said = "was known already" if answer["known"] else "is kept"
    total = shown.money(answer["total_nanos"], currency)
    session.show(answer, f"Bill {bill} {said}: {answer['line_count']} lines, {total}.")


@click.command("provider-costs", cls=Command)
@pass_session
def provider_costs(session: Session) -> None:
    """List what each machine of a provider costs: leased, idle, leaked."""
    answer = session.client.get("/v1/provider-costs")
    rows = [
        [
            row["provider_id"],
            row["sku"],
            f"{shown.money(row['price_nanos_per_hour'], row['currency'])} / h",
            *(shown.money(row[f"{part}_nanos"]) for part in ("leased", "idle", "leak")),
            shown.moment(row["ended_at"]),
        ]
        for row in answer["costs"]
    ]
    titles = ["MACHINE", "SKU", ">PRICE", ">LEASED", ">IDLE", ">LEAK", "ENDED"]
    session.show(answer, shown.table(titles, rows))


def _lines(file: Path) -> list[dict[str, Any]]:
    text = file.read_text()
    rows = json.loads(text) if file.suffix == ".json" else list(csv.DictReader(text.splitlines()))
    lines = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not set(_COLUMNS) <= row.keys():
            raise Failure(
                f"line {number} needs {', '.join(_COLUMNS)}", Exit.USAGE, code="BILL_LINE"
            )
        lines.append(_line(number, row))
    return lines


def _line(number: int, row: dict[str, str]) -> dict[str, Any]:
    try:
        return {
            "provider_id": row["provider_id"],
            "from_at": _micros(row["from"]),
            "until_at": _micros(row["until"]),
            "amount_nanos": str(shown.nanos(row["amount"])),
        }
    except ValueError as error:
        raise Failure(f"line {number}: {error}", Exit.USAGE, code="BILL_LINE") from None


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds


def _hour(text: str) -> int:
    """The beginning of the hour that a time lies in; 0 for none."""
    try:
        return _micros(text) // HOUR_US * HOUR_US if text else 0
    except ValueError as error:
        raise Failure(str(error), Exit.USAGE, code="TIME") from None
