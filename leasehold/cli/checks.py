"""`verify` and `replay --check`: what an operator runs to know that the record is whole.

Everything is imported when it is needed: other commands should not wait for gRPC and drivers.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from leasehold.cli import shown
from leasehold.cli.failures import Exit
from leasehold.cli.grammar import Command, pass_session
from leasehold.cli.session import Session, no_platform, read_state, state_folder

SERVICES = ("gateway", "admission", "placement", "aggregator", "enforcement", "billing")

T = TypeVar("T")


@click.command(cls=Command)
@click.argument("services", nargs=-1, metavar="[FILE | SERVICES]...")
@click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="For FILE: the key to trust, instead of the one kept from the first bill.",
)
@pass_session
def verify(session: Session, services: tuple[str, ...], public_key: Path | None) -> None:
    """Recompute every hash chain, or check one bill.

    FILE is the proof of an invoice, a name that ends with .json: it is checked offline, with
    nothing but the public key, and the first thing that differs is named.

    Reads the services' stores directly, then what was published on the bus and what the other
    services have applied. Names the first difference; exit code 1 if there is one, 5 if something
    could not be looked at. SERVICES are all unless some are named.
    """
    if len(services) == 1 and services[0].endswith(".json"):
        from leasehold.cli import proofs

        proofs.verify_file(session, Path(services[0]), public_key)
        return
    from leasehold.cli import audit

    found = read_state("platform.json", missing=no_platform)
    urls = found["postgres_url"], found["nats_url"]
    anchor = state_folder() / "proofs" / "anchor.jsonl"
    findings = _each(
        session, chosen(services, SERVICES), lambda name: audit.verify(*urls, name, anchor)
    )
    rows = [
        [
            one.service,
            one.events,
            one.published,
            one.witnesses,
            one.head[:16],
            _verdict(one.difference, one.unchecked),
            one.difference or one.unchecked or " ",
        ]
        for one in findings
    ]
    columns = ["SERVICE", ">EVENTS", ">ON BUS", ">WITNESSES", "HEAD", "RESULT", ""]
    drawn = shown.table(columns, rows, prose=True)
    session.show({"services": [asdict(one) for one in findings]}, drawn)
    _end(any(one.difference for one in findings), any(one.unchecked for one in findings))


@click.command(cls=Command)
@click.option("--check", is_flag=True, required=True, help="Compare, and change nothing.")
@click.argument("services", nargs=-1)
@pass_session
def replay(session: Session, check: bool, services: tuple[str, ...]) -> None:
    """Rebuild all from zero and compare with the live state.

    Every service is folded from its first event in a fresh process; the result equals the live
    state byte for byte, or the first difference is named and the exit code is 1. SERVICES are
    all unless some are named.
    """
    from leasehold.cli import rebuilds

    found = read_state("platform.json", missing=no_platform)
    identity = state_folder() / "identity" / "operator"
    names = chosen(services, SERVICES)
    results = _each(
        session,
        names,
        lambda name: rebuilds.check_replay(found["postgres_url"], found["peers"], identity, name),
    )
    document: list[dict[str, Any]] = [
        {"service": name, "position": position, "difference": difference}
        for name, (position, difference) in zip(names, results, strict=True)
    ]
    rows = [
        [one["service"], one["position"], _verdict(one["difference"]), one["difference"] or " "]
        for one in document
    ]
    columns = ["SERVICE", ">EVENTS", "RESULT", ""]
    session.show({"services": document}, shown.table(columns, rows, prose=True))
    _end(any(one["difference"] for one in document))


def chosen(given: tuple[str, ...], known: Sequence[str]) -> list[str]:
    """The services that were named, in the order of all; all if none was."""
    for name in given:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}")
    return [name for name in known if name in given or not given]


def _each(session: Session, names: list[str], check: Callable[[str], Awaitable[T]]) -> list[T]:
    """Check each service, as many at once as there are processors."""

    async def run() -> list[T]:
        places = asyncio.Semaphore(os.cpu_count() or 1)

        async def one(name: str) -> T:
            async with places:
                result = await check(name)
            session.tell(f"{name} is checked")
            return result

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name)) for name in names]
        return [task.result() for task in tasks]

    try:
        return asyncio.run(run())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


def _verdict(difference: str, unchecked: str = "") -> Any:
    return shown.styled("DIFFERS" if difference else "UNCHECKED" if unchecked else "ok")


def _end(differs: bool, unchecked: bool = False) -> None:
    code = Exit.NEGATIVE if differs else Exit.UNAVAILABLE if unchecked else Exit.OK
    click.get_current_context().exit(int(code))
