"""Invoices: issue, list, and show one with the proof of its amounts."""

from typing import Any

import click

from leasehold.cli import naming, proof, shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.failures import Exit
from leasehold.cli.grammar import Commands, key_option, pass_session
from leasehold.cli.session import Session


@click.group(cls=Commands)
def invoice() -> None:
    """Issue, list and show invoices."""


@key_option
@invoice.command()
@TENANT_OPTION
@pass_session
def issue(session: Session, tenant: str) -> None:
    """Issue an invoice over every ended lease that is on none yet."""
    answer = session.client.change(
        "POST", "/v1/invoices", key=session.key, tenant=tenant_of(session, tenant)
    )
    _show(session, answer)


@invoice.command("list")
@TENANT_OPTION
@pass_session
def list_(session: Session, tenant: str) -> None:
    """List invoices."""
    answer = session.client.get("/v1/invoices", tenant=tenant_of(session, tenant))
    rows = [
        [
            one["number"],
            one["invoice_id"],
            shown.moment(one["issued_at"]),
            len(one["lines"]),
            shown.money(one["total_nanos"], one["currency"]),
        ]
        for one in answer["invoices"]
    ]
    session.show(answer, shown.table([">#", "INVOICE", "ISSUED", ">LINES", ">TOTAL"], rows))


@invoice.command()
@click.argument("given", metavar="[INVOICE]", default="")
@TENANT_OPTION
@pass_session
def show(session: Session, given: str, tenant: str) -> None:
    """Show an invoice, by id or number, and prove its amounts.

    Without INVOICE the newest is shown.

    Each line is computed again: seconds × GPUs × price is the exact amount, rounded once it is
    the payable one. Exit code 1 if anything does not add up.
    """
    client = session.client
    key = naming.invoice_id(client, given, tenant_of(session, tenant))
    _show(session, client.get(f"/v1/invoices/{key}"))


@invoice.command()
@click.argument("given", metavar="INVOICE")
@TENANT_OPTION
@pass_session
def html(session: Session, given: str, tenant: str) -> None:
    """Write an invoice as one page to print, to standard output."""
    client = session.client
    key = naming.invoice_id(client, given, tenant_of(session, tenant))
    page = client.call("GET", f"/v1/invoices/{key}.html").text
    if session.as_json:
        session.show({"invoice_id": key, "html": page})
    else:
        click.echo(page, nl=False)


def _show(session: Session, found: dict[str, Any]) -> None:
    faults = proof.faults(found)
    session.show({**found, "faults": faults}, *drawn(found, faults))
    if faults:
        click.get_current_context().exit(int(Exit.NEGATIVE))


def drawn(found: dict[str, Any], faults: list[str]) -> list[Any]:
    currency = found["currency"]
    head = [
        ("invoice", f"#{found['number']}  {found['invoice_id']}"),
        ("tenant", found["tenant_id"]),
        ("issued", shown.moment(found["issued_at"])),
    ]
    rows = [_row(line, currency) for line in found["lines"]]
    parts: list[Any] = [shown.pairs(head), "", shown.table(_COLUMNS, rows), ""]
    parts.append(f"Total {shown.money(found['total_nanos'], currency)}")
    if faults:
        return [*parts, *(f"✗ {shown.plain(fault)}" for fault in faults)]
    for line in found["lines"]:
        parts.append(f"✓ line {line['line']}: {_equation(line, currency)}")
    return [*parts, "✓ the lines sum up to the total"]


_COLUMNS = [">#", "LEASE", "PROJECT", "GPUS", "FROM", "UNTIL", ">GPU-SECONDS", ">AMOUNT"]


def _row(line: dict[str, Any], currency: str) -> list[Any]:
    return [
        line["line"],
        line["lease_id"],
        line["project"],
        shown.gpus(line["gpu_count"], line["gpu_model"]),
        shown.moment(line["activated_at"]),
        shown.moment(line["ended_at"]),
        shown.seconds(line["gpu_us"]),
        shown.money(line["amount_nanos"], currency),
    ]


def _equation(line: dict[str, Any], currency: str) -> str:
    lasted = shown.seconds(line["ended_at"] - line["activated_at"])
    price = shown.price(line["price_nanos"], line["per_gpu_us"], currency)
    exact = shown.money(line["exact_nanos"], currency)
    amount = shown.money(line["amount_nanos"], currency)
    return f"{lasted} s × {line['gpu_count']} GPUs × {price} = {exact}, payable {amount}"
