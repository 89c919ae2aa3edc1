"""The operator's view: nodes, guards, sources, instances, and whether a source has orphans."""

from typing import Any

import click

from leasehold.cli import naming, shown
from leasehold.cli.failures import Exit
from leasehold.cli.grammar import Command, Commands, key_option, pass_session
from leasehold.cli.session import Session


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
@pass_session
def nodes(session: Session, context: click.Context) -> None:
    """List nodes and their GPUs."""
    if context.invoked_subcommand:
        return
    answer = session.client.get("/v1/nodes")
    columns = ["NODE", "HOST", "STATUS", "SOURCE", "GPUS", ">FREE", "SEEN"]
    session.show(answer, shown.table(columns, [_node_row(node) for node in answer["nodes"]]))


def _node_row(node: dict[str, Any]) -> list[Any]:
    models = sorted({gpu["model"] for gpu in node["gpus"]})
    count = {model: sum(gpu["model"] == model for gpu in node["gpus"]) for model in models}
    owned = ", ".join(shown.gpus(count[model], model) for model in models)
    return [
        node["node_id"],
        node["hostname"],
        shown.styled(node["status"]),
        f"{node['source']} (simulated)" if node["simulated"] else node["source"],
        owned,
        node["gpus_free"],
        shown.moment(node["seen_at"]),
    ]


@key_option
@nodes.command()
@click.option("--source", default="local", show_default=True, help="Who vouches for the node.")
@pass_session
def invite(session: Session, source: str) -> None:
    """Make a token with which one node can join, once and soon."""
    answer = session.client.change(
        "POST", "/v1/nodes/join-tokens", {"source": source}, key=session.key
    )
    rows = [
        ("node", answer["node_id"]),
        ("token", answer["token"]),
        ("until", shown.moment(answer["expires_at"])),
    ]
    session.show(answer, shown.pairs(rows))


@click.command(cls=Command)
@pass_session
def guards(session: Session) -> None:
    """List watched leases and the step in force on each."""
    answer = session.client.get("/v1/guards")
    rows = [
        [
            one["lease_id"],
            one["tenant_id"],
            one["node_id"],
            one["step"],
            f"{one['memory_bytes_used'] >> 20} of {one['memory_bytes_total'] >> 20} MiB",
        ]
        for one in answer["guards"]
    ]
    session.show(answer, shown.table(["LEASE", "TENANT", "NODE", "STEP", ">MEMORY"], rows))


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
@pass_session
def sources(session: Session, context: click.Context) -> None:
    """List sources of capacity."""
    if context.invoked_subcommand:
        return
    answer = session.client.get("/v1/sources")
    rows = [
        [one["source_id"], one["name"], one["provider"], one["endpoint"]]
        for one in answer["sources"]
    ]
    session.show(answer, shown.table(["SOURCE", "NAME", "PROVIDER", "ENDPOINT"], rows))


@key_option
@sources.command()
@click.argument("name")
@click.option("--provider", default="simulated", show_default=True, help="Its adapter.")
@click.option("--endpoint", required=True, metavar="URL", help="Where its API is.")
@pass_session
def add(session: Session, name: str, provider: str, endpoint: str) -> None:
    """Onboard a source."""
    document = {"name": name, "provider": provider, "endpoint": endpoint}
    answer = session.client.change("POST", "/v1/sources", document, key=session.key)
    session.show(answer, f"{name} is {answer['source_id']}.")


@sources.command()
@click.argument("source")
@pass_session
def offers(session: Session, source: str) -> None:
    """List what a source can sell now."""
    client = session.client
    answer = client.get(f"/v1/sources/{naming.source_id(client, source)}/offers")
    rows = [
        [
            one["offer"],
            shown.gpus(one["gpu_count"], one["gpu_model"]),
            f"{shown.money(one['price_nanos_per_hour'], one['currency'])} / h",
            "yes" if one["available"] else "no",
        ]
        for one in answer["offers"]
    ]
    session.show(answer, shown.table(["OFFER", "GPUS", ">PRICE", "AVAILABLE"], rows))


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
@pass_session
def instances(session: Session, context: click.Context) -> None:
    """List instances, rented or asked for."""
    if context.invoked_subcommand:
        return
    answer = session.client.get("/v1/instances")
    columns = ["INSTANCE", "SOURCE", "OFFER", "STATUS", "PROVIDER'S ID", ">PRICE", "CAUSE"]
    session.show(answer, shown.table(columns, [_instance_row(one) for one in answer["instances"]]))


def _instance_row(one: dict[str, Any]) -> list[Any]:
    price = f"{shown.money(one['price_nanos_per_hour'], one['currency'])} / h"
    return [
        one["instance_id"],
        one["source_id"],
        one["offer"],
        one["status"],
        one["provider_id"],
        price if one["currency"] else None,
        one["cause"],
    ]


@key_option
@instances.command()
@click.argument("source")
@click.argument("offer")
@pass_session
def request(session: Session, source: str, offer: str) -> None:
    """Ask a source for an instance."""
    client = session.client
    document = {"source_id": naming.source_id(client, source), "offer": offer}
    answer = client.change("POST", "/v1/instances", document, key=session.key)
    session.show(answer, f"{answer['instance_id']} is {answer['status']}.")


@key_option
@instances.command()
@click.argument("instance")
@pass_session
def release(session: Session, instance: str) -> None:
    """Give an instance back."""
    client = session.client
    path = f"/v1/instances/{naming.instance_id(client, instance)}"
    answer = client.change("DELETE", path, key=session.key)
    session.show(answer, f"{answer['instance_id']} is {answer['status']}.")


@click.command(cls=Command)
@click.argument("source")
@pass_session
def audit(session: Session, source: str) -> None:
    """Look for orphans at a source; changes nothing.

    Compares the inventory of the source with ours. Exit code 1 if there is an orphan, or if no
    conclusion could be drawn.
    """
    client = session.client
    path = f"/v1/sources/{naming.source_id(client, source)}/audit"
    answer = client.change("POST", path)
    rows = [
        [one["kind"], one["provider_id"], one["tag"], shown.money(one["price_nanos_per_hour"])]
        for one in answer["orphans"]
    ]
    said = f"{answer['inventory_size']} in the inventory, {len(rows)} orphans."
    if answer["aborted"]:
        said = f"No conclusion: {shown.plain(answer['aborted'])}."
    drawn = [shown.table(["KIND", "PROVIDER'S ID", "TAG", ">PRICE / H"], rows)] if rows else []
    session.show(answer, *drawn, said)
    if rows or answer["aborted"]:
        click.get_current_context().exit(int(Exit.NEGATIVE))
