"""Money: top-ups and costs. Amounts are exact; nothing here is rounded."""

from collections import Counter
from typing import Any

import click

from leasehold.cli import naming, shown
from leasehold.cli.client import Client
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Command, key_option, pass_session
from leasehold.cli.session import Session

TENANT_OPTION = click.option(
    "--tenant", default="", metavar="TENANT", help="For operators and finance."
)


def tenant_of(session: Session, given: str) -> str:
    return naming.tenant_id(session.profiles, given) if given else ""


@key_option
@click.command(cls=Command)
@click.argument("tenant")
@click.argument("amount")
@click.option("--currency", default="", metavar="CODE", help="If not the account's own.")
@click.option("--reference", default="", metavar="TEXT", help="The payment it stands for.")
@pass_session
def topup(session: Session, tenant: str, amount: str, currency: str, reference: str) -> None:
    """Pay in for a tenant, as operator or finance.

    TENANT is its id, or a profile of yours that belongs to it. AMOUNT is decimal, such as 100.00.
    """
    paid = amount_given(amount)
    client, key = session.client, session.new_key()
    tenant_id = naming.tenant_id(session.profiles, tenant)
    balance = client.change(
        "POST",
        f"/v1/tenants/{tenant_id}/top-ups",
        {
            "amount_nanos": str(paid),
            "currency": currency or _currency(client, tenant_id),
            "reference": reference or key,
        },
        key=key,
    )
    said = f"{shown.money(paid, balance['currency'])} paid in for {tenant_id}."
    session.show(balance, said, shown.pairs(_balance_rows(balance)))


def amount_given(text: str) -> int:
    """The nano-units of an amount that somebody typed; it is above 0."""
    try:
        given = shown.nanos(text)
    except ValueError as error:
        raise Failure(str(error), Exit.USAGE, code="AMOUNT") from None
    if given <= 0:
        raise Failure("the amount must be above 0", Exit.USAGE, code="AMOUNT")
    return given


def _currency(client: Client, tenant_id: str) -> str:
    return str(client.get("/v1/balance", tenant=tenant_id)["currency"])


@click.command(cls=Command)
@TENANT_OPTION
@pass_session
def cost(session: Session, tenant: str) -> None:
    """Show what each lease has cost so far, and the balance."""
    answer = session.client.get("/v1/costs", tenant=tenant_of(session, tenant))
    leases, balance = answer["leases"], answer["balance"]
    document = {**answer, "totals": totals(leases)}
    drawn: list[Any] = [shown.table(_COST_COLUMNS, [_cost_row(lease) for lease in leases])]
    drawn += [
        f"Total {shown.money(one['amount_nanos'], one['currency'])}" for one in document["totals"]
    ]
    if balance:
        drawn += ["", shown.pairs(_balance_rows(balance))]
    session.show(document, *drawn)


_COST_COLUMNS = ["LEASE", "GPUS", ">SECONDS", ">PRICE", ">AMOUNT", "STATE", "INVOICE"]


def _cost_row(lease: dict[str, Any]) -> list[Any]:
    currency = lease["currency"]
    return [
        lease["lease_id"],
        shown.gpus(lease["gpu_count"], lease["gpu_model"]),
        shown.seconds(lease["metered_us"]),
        shown.price(lease["price_nanos"], lease["per_gpu_us"], currency),
        shown.money(lease["amount_nanos"], currency),
        "ended" if lease["ended_at"] else "running",
        lease["invoice_id"],
    ]


def totals(leases: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Sums per currency; different currencies have no sum."""
    sums: Counter[str] = Counter()
    for lease in leases:
        sums[lease["currency"]] += int(lease["amount_nanos"])
    return [
        {"currency": currency, "amount_nanos": str(amount), "amount": shown.money(amount)}
        for currency, amount in sorted(sums.items())
    ]


def _balance_rows(balance: dict[str, Any]) -> list[tuple[str, Any]]:
    currency = balance["currency"]
    names = ["prepaid", "held", "available", "owed"]
    return [(name, shown.money(balance[f"{name}_nanos"], currency)) for name in names]
