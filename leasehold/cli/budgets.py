"""Budgets: what a project or a tenant may spend in a period."""

from typing import Any

import click

from leasehold.cli import shown
from leasehold.cli.costs import TENANT_OPTION, amount_given, tenant_of
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Commands, key_option, pass_session
from leasehold.cli.session import Session


@click.group(cls=Commands)
def budget() -> None:
    """Set, list and show budgets."""


@key_option
@budget.command("set")
@click.argument("project", default="")
@click.option("--soft", default="", metavar="AMOUNT", help="Tell when more is used.")
@click.option("--hard", default="", metavar="AMOUNT", help="Admit nothing that would pass it.")
@TENANT_OPTION
@pass_session
def set_(session: Session, project: str, soft: str, hard: str, tenant: str) -> None:
    """Set the budget of PROJECT, or without one of the whole tenant.

    An amount that is not given is none. Only an admin or an operator can raise a budget.
    """
    body = {
        "project": project,
        "soft_nanos": str(amount_given(soft) if soft else 0),
        "hard_nanos": str(amount_given(hard) if hard else 0),
    }
    answer = session.client.change(
        "PUT", "/v1/budgets", body, key=session.key, tenant=tenant_of(session, tenant)
    )
    session.show(answer, _table([answer]))


@budget.command("list")
@TENANT_OPTION
@pass_session
def list_(session: Session, tenant: str) -> None:
    """List budgets with what is used, held and forecast."""
    answer = session.client.get("/v1/budgets", tenant=tenant_of(session, tenant))
    session.show(answer, _table(answer["budgets"]))


@budget.command()
@click.argument("project", default="")
@TENANT_OPTION
@pass_session
def show(session: Session, project: str, tenant: str) -> None:
    """Show the budget of PROJECT, or without one of the whole tenant."""
    answer = session.client.get("/v1/budgets", tenant=tenant_of(session, tenant))
    for one in answer["budgets"]:
        if one["project"] == project:
            session.show(one, _table([one]))
            return
    raise Failure("there is no such budget", Exit.NOT_FOUND, code="BUDGET_NOT_FOUND")


def _table(budgets: list[dict[str, Any]]) -> Any:
    names = ("soft_nanos", "hard_nanos", "used_nanos", "held_nanos", "forecast_nanos")
    rows = [
        [one["project"] or "(tenant)", *(shown.money(one[name], one["currency"]) for name in names)]
        for one in budgets
    ]
    return shown.table(["PROJECT", ">SOFT", ">HARD", ">USED", ">HELD", ">FORECAST"], rows)
