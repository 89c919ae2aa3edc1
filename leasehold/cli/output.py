"""What a workload printed. Following resumes where it broke off: no byte is lost or shown twice."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click
import httpx

from leasehold.cli import naming
from leasehold.cli.client import Client
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Command, pass_session
from leasehold.cli.session import Session

# In a row without a word from the gateway; a working stream has a pulse every few seconds.
ATTEMPTS_MAX = 6
PAUSE_SECONDS = 1.0


@click.command(cls=Command)
@click.argument("workload")
@click.option("-f", "--follow", is_flag=True, help="Stay until the workload has ended.")
@pass_session
def logs(session: Session, workload: str, follow: bool) -> None:
    """Show what a workload printed.

    WORKLOAD is an id, the beginning of one, or a name.
    """
    client = session.client
    key = naming.own_workload_id(client, workload)
    pieces = followed(client, key) if follow else iter([_so_far(client, key)])
    if session.as_json:
        text = b"".join(pieces).decode(errors="replace")
        session.show({"workload_id": key, "text": text})
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def _so_far(client: Client, key: str) -> bytes:
    return client.call("GET", f"/v1/workloads/{key}/logs").content


@dataclass
class Event:
    """One server-sent event."""

    name: str = "message"
    data: str = ""
    id: str = ""


def followed(client: Client, key: str) -> Iterator[bytes]:
    """The output as it comes, until the workload has ended."""
    seen, failed = "", 0
    while True:
        try:
            for event in _events(client, key, seen):
                failed = 0
                if event.name == "end":
                    return
                if event.name == "error":
                    raise _failure(json.loads(event.data))
                seen = event.id or seen
                yield str(json.loads(event.data)["text"]).encode()
        except httpx.TransportError as error:
            failed += 1
            trouble = Failure(
                f"the gateway at {client.gateway_url} does not answer ({error})",
                Exit.UNAVAILABLE,
                code="GATEWAY_AWAY",
                hint="the workload is not affected; try again in a moment",
            )
        except Failure as failure:
            if failure.exit_code != Exit.UNAVAILABLE:
                raise
            failed += 1
            trouble = failure
        if failed >= ATTEMPTS_MAX:
            raise trouble
        time.sleep(PAUSE_SECONDS)


def _events(client: Client, key: str, seen: str) -> Iterator[Event]:
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": seen} if seen else {})}
    with client.stream(f"/v1/workloads/{key}/logs", {"follow": "true"}, headers) as response:
        yield from parsed(response.iter_bytes())


def parsed(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Server-sent events; comments are the server's pulse and mean nothing."""
    event = Event()
    for line in _lines(chunks):
        if not line:
            if event.data:
                yield event
            event = Event()
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event.name = value
        elif field == "id":
            event.id = value
        elif field == "data":
            event.data = f"{event.data}\n{value}" if event.data else value


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines end with a line feed and nothing else: JSON may hold what Unicode calls a line end."""
    kept = b""
    for chunk in chunks:
        *whole, kept = (kept + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)


def _failure(problem: dict[str, Any]) -> Failure:
    passing = problem.get("code") in ("UNAVAILABLE", "OVERLOADED", "NOT_LEADER")
    return Failure(
        str(problem.get("detail", "the stream failed")),
        Exit.UNAVAILABLE if passing else Exit.NEGATIVE,
        code=str(problem.get("code", "")),
    )
