"""Parked events: what a service could not apply of another's, and applying it again.

They are asked of the services themselves, with the operator's certificate from the state folder:
only the service that parked an event can apply it, and it does so at most once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from leasehold.called import PROGRAM
from leasehold.cli import checks, shown
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Commands, pass_session
from leasehold.cli.session import Session, no_platform, read_state, state_folder

if TYPE_CHECKING:
    from chassis.identity import Identity

LIST_SECONDS = 30
REDRIVE_SECONDS = 600
_FIELDS = ("source", "position", "aggregate_id", "topic", "cause")

# Asks one service, whose LogService it is given.
Question = Callable[[Any], Awaitable[Any]]


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
@pass_session
def parked(session: Session, context: click.Context) -> None:
    """List events that a service could not apply.

    Reads the state folder. Each waits, with the later events of its aggregate, until its cause is
    mended and it is redriven.
    """
    if context.invoked_subcommand:
        return
    from leasehold.chassis.v1 import log_service_pb2 as pb

    request = pb.ListParkedRequest()
    answers, whole = _asked(
        session, _peers(), lambda log: log.ListParked(request, timeout=LIST_SECONDS)
    )
    found = [
        {"service": service, **{field: getattr(event, field) for field in _FIELDS}}
        for service, answer in answers.items()
        for event in answer.parked
    ]
    columns = ["AT", "FROM", ">POSITION", "AGGREGATE", "EVENT", "CAUSE"]
    drawn = (
        [shown.table(columns, [list(one.values()) for one in found], prose=True)] if found else []
    )
    said = f"{len(found)} parked; when the cause is mended: {PROGRAM} parked redrive"
    session.show({"parked": found}, *drawn, said if found else "Nothing is parked.")
    _end(whole)


@parked.command()
@click.argument("service", default="", metavar="[SERVICE]")
@click.option("--source", default="", metavar="SERVICE", help="Only events of this service.")
@pass_session
def redrive(session: Session, service: str, source: str) -> None:
    """Apply parked events again, oldest first, each once.

    Of every service, or of SERVICE alone. What fails again stays parked, and the exit code is 1.
    """
    from leasehold.chassis.v1 import log_service_pb2 as pb

    peers = _peers()
    names = checks.chosen((service,) if service else (), list(peers))
    checks.chosen((source,) if source else (), checks.SERVICES)
    request = pb.RedriveParkedRequest(source=source)
    answers, whole = _asked(
        session,
        {name: peers[name] for name in names},
        lambda log: log.RedriveParked(request, timeout=REDRIVE_SECONDS),
    )
    document = [
        {"service": name, "applied": answer.applied, "still_parked": answer.still_parked}
        for name, answer in answers.items()
    ]
    rows = [list(one.values()) for one in document]
    session.show(
        {"services": document}, shown.table(["SERVICE", ">APPLIED", ">STILL PARKED"], rows)
    )
    _end(whole, stuck=any(one["still_parked"] for one in document))


def _end(whole: bool, *, stuck: bool = False) -> None:
    code = Exit.NEGATIVE if stuck else Exit.OK if whole else Exit.UNAVAILABLE
    click.get_current_context().exit(int(code))


def _peers() -> dict[str, str]:
    peers: dict[str, str] = read_state("platform.json", missing=no_platform)["peers"]
    return peers


def _asked(session: Session, peers: dict[str, str], ask: Question) -> tuple[dict[str, Any], bool]:
    """The answer of each service that is there, and whether that is all of them."""
    from chassis.identity import Identity, UnusableIdentity

    try:
        identity = Identity(state_folder() / "identity" / "operator")
    except UnusableIdentity as error:
        hint = f"start the platform with `{PROGRAM} up`: it renews what has expired"
        raise Failure(str(error), Exit.UNAVAILABLE, code="IDENTITY", hint=hint) from None
    answers = asyncio.run(_answers(session, identity, peers, ask))
    return answers, len(answers) == len(peers)


async def _answers(
    session: Session, identity: "Identity", peers: dict[str, str], ask: Question
) -> dict[str, Any]:
    import grpc

    from chassis.channels import Channels
    from leasehold.chassis.v1.log_service_pb2_grpc import LogServiceStub

    channels, answers = Channels(identity, peers), {}
    for name in peers:
        try:
            answers[name] = await ask(LogServiceStub(channels.get(name)))
        except grpc.aio.AioRpcError as error:
            session.tell(f"{name} does not answer: {error.code().name}, {error.details()}")
    await channels.close()
    return answers
