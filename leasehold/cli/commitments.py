"""Capacity bought ahead of time: open, list. Amounts are exact; nothing here is rounded."""

from typing import Any

import click

from leasehold.cli import naming, shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.grammar import Commands, key_option, pass_session
from leasehold.cli.price_book import micros
from leasehold.cli.session import Session

_COLUMNS = [
    "COMMITMENT", "GPUS", ">PRICE", "FROM", "UNTIL", ">USED GPU-S", ">UNUSED GPU-S", ">UNUSED",
]  # fmt: skip


@click.group(cls=Commands)
def commitment() -> None:
    """Open and list commitments: GPUs reserved for every hour of a term."""


@key_option
@commitment.command("open")
@click.argument("tenant")
@click.argument("name", metavar="ID")
@click.option("--gpus", type=int, required=True, help="How many in every hour.")
@click.option("--model", required=True, help="GPU model.")
@click.option("--price", required=True, metavar="PRICE", help="For one GPU and one hour.")
@click.option("--from", "since", required=True, metavar="TIME", help="A whole UTC hour to come.")
@click.option("--until", required=True, metavar="TIME", help="Not included.")
@pass_session
def open_(
    session: Session,
    tenant: str,
    name: str,
    gpus: int,
    model: str,
    price: str,
    since: str,
    until: str,
) -> None:
    """Sell a tenant GPUs for every hour of a term, as operator or finance."""
    tenant_id = naming.tenant_id(session.profiles, tenant)
    document = {
        "commitment_id": name,
        "gpu_model": model,
        "gpu_count": gpus,
        "price": price,
        "starts_at": micros(since),
        "ends_at": micros(until),
    }
    path = f"/v1/tenants/{tenant_id}/commitments"
    opened = session.client.change("POST", path, document, key=session.key)
    session.show(opened, shown.table(_COLUMNS, [_row(opened)]))


@commitment.command("list")
@TENANT_OPTION
@pass_session
def list_(session: Session, tenant: str) -> None:
    """List commitments with what was used of them."""
    answer = session.client.get("/v1/commitments", tenant=tenant_of(session, tenant))
    session.show(answer, shown.table(_COLUMNS, [_row(one) for one in answer["commitments"]]))


def _row(one: dict[str, Any]) -> list[Any]:
    currency = one["currency"]
    return [
        one["commitment_id"],
        shown.gpus(one["gpu_count"], one["gpu_model"]),
        shown.price(one["price_nanos"], one["per_gpu_us"], currency),
        shown.moment(one["starts_at"]),
        shown.moment(one["ends_at"]),
        shown.seconds(one["used_gpu_us"]),
        shown.seconds(one["unused_gpu_us"]),
        shown.money(one["unused_nanos"], currency),
    ]
