"""A tenant's own things and an operator's hold on them: envelope, projects, credentials."""

from typing import Any

import click

from leasehold.cli import naming, shown
from leasehold.cli.client import Client
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Commands, key_option, pass_session
from leasehold.cli.session import Session


@click.group(cls=Commands)
def envelope() -> None:
    """Show and change what a tenant may hold."""


@envelope.command("get")
@click.argument("tenant")
@pass_session
def get(session: Session, tenant: str) -> None:
    """Show a tenant's envelope."""
    found = session.client.get(_path(session, tenant))
    session.show(found, drawn(found))


@key_option
@envelope.command("set")
@click.argument("tenant")
@click.option("--gpus", multiple=True, metavar="MODEL=COUNT", help="Quota of one model; repeat it.")
@click.option("--tier", default="", metavar="NAME")
@click.option("--trait", "traits", multiple=True, metavar="NAME", help="Replaces all; repeat it.")
@pass_session
def set_(
    session: Session, tenant: str, gpus: tuple[str, ...], tier: str, traits: tuple[str, ...]
) -> None:
    """Change a tenant's envelope; what is not named stays.

    It applies from the next admission on. A count of 0 takes a model away.
    """
    client, path = session.client, _path(session, tenant)
    current = client.get(path)
    quota = {**current["gpu_quota"], **dict(map(_quota, gpus))}
    wanted = {
        "gpu_quota": {model: count for model, count in quota.items() if count},
        "tier": tier or current["tier"],
        "traits": list(traits) or current["traits"],
    }
    found = _put(client, path, wanted, current["version"], session.key)
    session.show(found, drawn(found))


def _put(
    client: Client, path: str, wanted: dict[str, Any], version: int, key: str
) -> dict[str, Any]:
    try:
        return client.change("PUT", path, wanted, key=key, headers={"If-Match": f'"{version}"'})
    except Failure as failure:
        # The first try may have done it and its answer been lost; then it is as we want it.
        now = client.get(path) if failure.code == "PRECONDITION_FAILED" else {}
        if now and all(now[name] == value for name, value in wanted.items()):
            return now
        raise


def drawn(found: dict[str, Any]) -> Any:
    quota = ", ".join(shown.gpus(count, model) for model, count in found["gpu_quota"].items())
    return shown.pairs(
        [
            ("tenant", found["tenant_id"]),
            ("GPUs at once", quota),
            ("tier", found["tier"]),
            ("traits", ", ".join(found["traits"])),
            ("version", found["version"]),
            ("suspended", "yes" if found["suspended"] else "no"),
        ]
    )


def _quota(text: str) -> tuple[str, int]:
    model, _, count = text.partition("=")
    if not model or not count.isdecimal():
        raise Failure(f"{text!r} is not like H100=8", Exit.USAGE, code="GPU_QUOTA")
    return model, int(count)


def _path(session: Session, tenant: str) -> str:
    return f"/v1/tenants/{naming.tenant_id(session.profiles, tenant)}/envelope"


@click.group(cls=Commands)
def tenant() -> None:
    """Show, suspend and resume tenants."""


@tenant.command("show")
@click.argument("given", metavar="TENANT")
@pass_session
def show(session: Session, given: str) -> None:
    """Show a tenant."""
    _tell(session, session.client.get(f"/v1/tenants/{naming.tenant_id(session.profiles, given)}"))


@key_option
@tenant.command()
@click.argument("given", metavar="TENANT")
@click.option("--reason", required=True, metavar="TEXT", help="Why; the tenant may ask.")
@pass_session
def suspend(session: Session, given: str, reason: str) -> None:
    """Refuse everything a tenant asks from now on."""
    path = f"/v1/tenants/{naming.tenant_id(session.profiles, given)}/suspend"
    _tell(session, session.client.change("POST", path, {"reason": reason}, key=session.key))


@key_option
@tenant.command()
@click.argument("given", metavar="TENANT")
@pass_session
def resume(session: Session, given: str) -> None:
    """Let a suspended tenant act again."""
    path = f"/v1/tenants/{naming.tenant_id(session.profiles, given)}/resume"
    _tell(session, session.client.change("POST", path, key=session.key))


def _tell(session: Session, found: dict[str, Any]) -> None:
    session.show(found, f"{found['name']} ({found['tenant_id']}) is {found['status']}.")


@click.group(cls=Commands)
def project() -> None:
    """Open projects."""


@key_option
@project.command("open")
@click.argument("name")
@TENANT_OPTION
@pass_session
def open_(session: Session, name: str, tenant: str) -> None:
    """Open a project, which intents can name from then on."""
    answer = session.client.change(
        "POST",
        "/v1/projects",
        {"project": name},
        key=session.key,
        tenant=tenant_of(session, tenant),
    )
    session.show(answer, f"{answer['name']} has the projects {', '.join(answer['projects'])}.")


@click.group(cls=Commands)
def credential() -> None:
    """Issue and revoke credentials."""


@key_option
@credential.command("issue")
@click.option("--role", type=click.Choice(["viewer", "user", "admin"]), default="user")
@TENANT_OPTION
@pass_session
def issue(session: Session, role: str, tenant: str) -> None:
    """Issue a credential; its secret is shown this once."""
    answer = session.client.change(
        "POST",
        "/v1/credentials",
        {"role": role},
        key=session.key,
        tenant=tenant_of(session, tenant),
    )
    rows = [("client id", answer["client_id"]), ("secret", answer["client_secret"])]
    session.show(answer, shown.pairs(rows))


@key_option
@credential.command("revoke")
@click.argument("client_id")
@TENANT_OPTION
@pass_session
def revoke(session: Session, client_id: str, tenant: str) -> None:
    """Refuse a credential from now on."""
    session.client.change(
        "DELETE",
        f"/v1/credentials/{naming.client_id(client_id)}",
        key=session.key,
        tenant=tenant_of(session, tenant),
    )
    session.show({"client_id": client_id, "revoked": True}, f"{client_id} is revoked.")
