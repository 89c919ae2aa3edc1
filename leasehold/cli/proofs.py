"""Proofs: fetch one for a bill, check it offline, and look at the signed heads and keys."""

import json
from pathlib import Path
from typing import Any

import click

from leasehold.cli import invoices, naming, shown
from leasehold.cli.client import Client
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Commands, key_option, pass_session
from leasehold.cli.session import Session


@invoices.invoice.command("proof")
@click.argument("given", metavar="[INVOICE]", default="")
@click.argument("file", metavar="[FILE]", default="", type=click.Path(dir_okay=False))
@TENANT_OPTION
@pass_session
def invoice_proof(session: Session, given: str, file: str, tenant: str) -> None:
    """Fetch the proof of an invoice into a file.

    Without INVOICE it is the newest one's; FILE is named after it unless given. The file is all
    that checking needs, apart from the public key.
    """
    client = session.client
    key = naming.invoice_id(client, given, tenant_of(session, tenant))
    document = fetched(client, key)
    path = Path(file or f"{key}.json")
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    head = document["head"]
    answer = {"file": str(path), "events": len(document["events"]), "head": head}
    session.show(
        answer,
        f"{path}: {len(document['events'])} events, proven against the head of {head['size']}",
    )


def fetched(client: Client, invoice_id: str) -> dict[str, Any]:
    """All pages of a proof as one document."""
    # Imported here: other commands should not wait for it.
    from billing.proof.bundle import FORMAT

    path = f"/v1/invoices/{invoice_id}/proof"
    page = client.get(path)
    events, size = list(page["events"]), str(page["head"]["size"])
    while token := page["next_page_token"]:
        page = client.get(path, size=size, page_token=token)
        events += page["events"]
    parts = {name: page[name] for name in ("invoice", "head", "keys")}
    return {"format": FORMAT, **parts, "events": events}


@click.group(cls=Commands)
def proof() -> None:
    """Signed heads of the ledger, and the keys that sign them."""


@proof.command("heads")
@click.option("--after", default=0, metavar="SIZE", help="Heads of more events than this.")
@pass_session
def list_heads(session: Session, after: int) -> None:
    """List signed heads, a page at a time, the smallest first."""
    answer = session.client.get("/v1/proofs/heads", after=str(after))
    rows = [
        [one["size"], shown.moment(one["signed_at"]), one["root"][:32], one["key_id"][:16]]
        for one in answer["heads"]
    ]
    drawn: list[Any] = [shown.table([">EVENTS", "SIGNED", "ROOT", "KEY"], rows)]
    if answer["next_after"]:
        drawn.append(f"more: --after {answer['next_after']}")
    session.show(answer, *drawn)


@proof.command("keys")
@pass_session
def list_keys(session: Session) -> None:
    """List the public keys; the last one signs."""
    answer = session.client.get("/v1/proofs/keys")
    rows = [[one["key_id"][:16], one["public_key"], one["previous_key_id"][:16] or "–"]
            for one in answer["keys"]]  # fmt: skip
    session.show(answer, shown.table(["KEY", "PUBLIC KEY", "ANNOUNCED BY"], rows))


@key_option
@proof.command("rotate-key")
@pass_session
def rotate_key(session: Session) -> None:
    """Make a new key sign heads, announced by the one in force."""
    answer = session.client.change("POST", "/v1/proofs/keys", key=session.key)
    session.show(answer, f"heads are signed by {answer['public_key']} from now on")


def verify_file(session: Session, path: Path, public_key: Path | None) -> None:
    """Check a proof without asking anybody."""
    from leasehold.cli import pinned, receipt

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise Failure(f"{path} is not JSON", Exit.NEGATIVE, code="PROOF") from None
    keys = pinned.Pinned(session.profiles.folder)
    try:
        tenant_id, _, claimed = receipt.claimed_key(document)
        known = pinned.read_key(public_key) if public_key else keys.get(tenant_id)
        proven = receipt.check(document, known or claimed)
    except receipt.Wrong as wrong:
        raise Failure(
            f"{path} does not hold: {wrong}",
            Exit.NEGATIVE,
            code="PROOF",
            hint="fetch the proof again; if it still does not hold, dispute the invoice",
        ) from None
    if not known:
        keys.keep(tenant_id, claimed)
        session.tell(f"the public key {claimed} is trusted from now on; compare it by other means")
    _show(session, proven.invoice, proven.head.size, proven.events, proven.notes)


def _show(
    session: Session, invoice: dict[str, Any], size: int, events: int, notes: list[str]
) -> None:
    total = shown.money(invoice["total_nanos"], invoice["currency"])
    answer = {"invoice": invoice, "events": events, "head_size": size, "notes": notes}
    session.show(
        answer,
        f"✓ invoice #{invoice['number']} of {invoice['tenant_id']}: {total}",
        f"✓ {events} events are in the ledger of {size} events whose head was signed",
        "✓ every line follows from the slices of its lease",
        *(f"! {note}" for note in notes),
    )
