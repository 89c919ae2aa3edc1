"""Who one is: sign up, log in, look, switch. A secret is never an argument: those are public."""

import os
import sys
import time

import click

from leasehold.called import PROGRAM
from leasehold.cli import shown
from leasehold.cli.addresses import is_local
from leasehold.cli.client import Client
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Command, key_option, pass_session
from leasehold.cli.profiles import OPERATOR, Profile, check_name
from leasehold.cli.session import Session, no_platform, read_state
from leasehold.cli.tokens import claims

OPENING_SECONDS = 15.0
_LOOK_SECONDS = 0.2


@key_option
@click.command(cls=Command)
@click.argument("name")
@click.option("--project", default="default", show_default=True, help="First project to open.")
@pass_session
def signup(session: Session, name: str, project: str) -> None:
    """Make a tenant and keep its credential in a profile.

    The profile has the tenant's name unless --profile says otherwise, and is in use from then on.
    """
    profile_name = check_name(session.profile or name)
    if session.profiles.has(profile_name):
        raise Failure(
            f"you already have a profile {profile_name}",
            Exit.NEGATIVE,
            code="PROFILE_EXISTS",
            hint="choose another name for the new one with --profile",
        )
    client = session.new_client(session.gateway_url())
    answer = client.change(
        "POST", "/v1/tenants", {"name": name, "project": project}, key=session.key
    )
    tenant, client_id = answer["tenant"], answer["client_id"]
    if not answer["client_secret"]:
        raise Failure(
            f"tenant {tenant['tenant_id']} exists, and its secret was lost on the way",
            Exit.UNAVAILABLE,
            code="SECRET_LOST",
            hint="sign up again, or let an operator issue a credential for it",
        )
    profile = Profile(client.gateway_url, client_id, answer["client_secret"], tenant["tenant_id"])
    session.profiles.save(profile_name, profile)
    ready = _wait_for_account(session, client, profile_name, profile)
    document = {"tenant": tenant, "client_id": client_id, "profile": profile_name, "ready": ready}
    state = "" if ready else "\nIts account is still being opened; that takes a moment."
    session.show(
        document,
        f"Tenant {name} is {tenant['tenant_id']}; you act as profile {profile_name}.{state}",
        *_next(session, client.gateway_url, profile_name),
    )


def _next(session: Session, gateway_url: str, name: str) -> list[str]:
    """Without money nothing starts, and only staff can pay it in."""
    if session.profiles.has(OPERATOR):
        topup = f"{PROGRAM} topup {name} 100 --profile {OPERATOR}"
        return [f"Next: an operator tops it up: {topup}"]
    if is_local(gateway_url):
        steps = (f"login --{OPERATOR}", f"topup {name} 100", f"use {name}")
        return ["Next, as the operator of this platform:", *(f"  {PROGRAM} {one}" for one in steps)]
    tenant_id = session.profiles.get(name).tenant_id
    return [f"Next: ask an operator of the platform to top up {tenant_id}."]


def _wait_for_account(session: Session, client: Client, name: str, profile: Profile) -> bool:
    """Signing up is one service's fact; the others hear of it a moment later."""
    client.authorise = session.tokens(client, name, profile).get
    deadline = time.monotonic() + OPENING_SECONDS
    paths = ["/v1/balance", f"/v1/tenants/{profile.tenant_id}/envelope"]
    while paths:
        try:
            client.get(paths[-1])
            paths.pop()
        except Failure as failure:
            if failure.exit_code not in (Exit.NOT_FOUND, Exit.UNAVAILABLE):
                raise
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
    return True


@click.command(cls=Command)
@click.option("--operator", is_flag=True, help="As the operator of the platform on this machine.")
@pass_session
def login(session: Session, operator: bool) -> None:
    """Keep a credential in a profile and use it from now on.

    Asks for the client id and the secret, unless LEASEHOLD_CLIENT_ID and LEASEHOLD_CLIENT_SECRET
    are set, or --operator finds them in the state folder.
    """
    name = check_name(session.profile or (OPERATOR if operator else "default"))
    profile = _local_operator(session) if operator else _asked(session)
    client = session.new_client(profile.gateway_url)
    found = claims(session.tokens(client, "", profile).get())
    role, tenant_id = str(found.get("role", "")), str(found.get("tenant", ""))
    kept = Profile(client.gateway_url, profile.client_id, profile.client_secret, tenant_id)
    session.profiles.save(name, kept)
    document = {
        "profile": name,
        "client_id": profile.client_id,
        "role": role,
        "tenant_id": tenant_id,
        "gateway_url": client.gateway_url,
    }
    where = f" of {tenant_id}" if tenant_id else ""
    session.show(document, f"Logged in as {role}{where}; you act as profile {name}.")


def _local_operator(session: Session) -> Profile:
    found = read_state("operator.json", missing=no_platform)
    url = session.gateway or str(found.get("gateway_url", ""))
    return Profile(url, str(found.get("client_id", "")), str(found.get("client_secret", "")))


def _asked(session: Session) -> Profile:
    if profile := session.environment_profile():
        return profile
    client_id = os.environ.get("LEASEHOLD_CLIENT_ID") or click.prompt("Client id", err=True)
    if sys.stdin.isatty():
        secret = click.prompt("Client secret", hide_input=True, err=True)
    else:
        secret = sys.stdin.readline().strip()
    return Profile(session.gateway_url(), str(client_id).strip(), str(secret))


@click.command(cls=Command)
@pass_session
def whoami(session: Session) -> None:
    """Show who you are to the platform."""
    name, profile = session.identity()
    client = session.client
    assert client.authorise is not None
    found = claims(client.authorise(False))
    tenant_id = str(found.get("tenant", ""))
    tenant = client.get(f"/v1/tenants/{tenant_id}") if tenant_id else None
    document = {
        "profile": name,
        "client_id": profile.client_id,
        "role": found.get("role", ""),
        "tenant": tenant,
        "gateway_url": client.gateway_url,
        "token_expires_at": int(found.get("exp", 0)) * shown.SECOND_US,
    }
    rows = [
        ("profile", name or "from the environment"),
        ("role", document["role"]),
        ("tenant", f"{tenant['name']} ({tenant_id}), {tenant['status']}" if tenant else ""),
        ("projects", ", ".join(tenant["projects"]) if tenant else ""),
        ("client id", profile.client_id),
        ("gateway", client.gateway_url),
        ("token until", shown.moment(document["token_expires_at"])),
    ]
    session.show(document, shown.pairs(rows))


@click.command(cls=Command)
@pass_session
def profiles(session: Session) -> None:
    """List your profiles."""
    current = session.profiles.current()
    found = [(name, session.profiles.get(name)) for name in session.profiles.names()]
    document = [
        {
            "profile": name,
            "in_use": name == current,
            "client_id": profile.client_id,
            "tenant_id": profile.tenant_id,
            "gateway_url": profile.gateway_url,
        }
        for name, profile in found
    ]
    rows = [
        ("*" if one["in_use"] else " ", *(one[key] for key in list(one) if key != "in_use"))
        for one in document
    ]
    columns = [" ", "PROFILE", "CLIENT ID", "TENANT", "GATEWAY"]
    session.show({"profiles": document}, shown.table(columns, rows))


@click.command(cls=Command)
@click.argument("name")
@pass_session
def use(session: Session, name: str) -> None:
    """Act as this profile from now on."""
    session.profiles.use(name)
    session.show({"profile": name}, f"You act as profile {name}.")
