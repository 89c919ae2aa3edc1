"""Daily work: apply an intent, look, stop.

The document is sent as its author wrote it: the gateway reads it more strictly than a YAML
library would, and its answers name the author's own lines and fields.
"""

import sys
from pathlib import Path
from typing import Any

import click

from leasehold.called import PROGRAM
from leasehold.cli import naming, progress, shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Command, key_option, pass_session
from leasehold.cli.session import Session

BYTES_MAX = 1024 * 1024


@key_option
@click.command(cls=Command)
@click.option(
    "-f", "--file", "source", required=True, metavar="FILE", help="The intent; - is standard input."
)
@click.option("--wait", is_flag=True, help="Show progress until the workload has ended.")
@click.option("--timeout", type=click.IntRange(1), metavar="SECONDS", help="Wait no longer.")
@pass_session
def apply(session: Session, source: str, wait: bool, timeout: int | None) -> None:
    """Submit an intent, in YAML or JSON.

    With --wait the exit code is that of the work: 0 if it succeeded, 1 if not. Ctrl-C ends the
    waiting, not the work.
    """
    data = read_document(source)
    media = "application/json" if _is_json(source, data) else "application/yaml"
    client = session.client
    answer = client.call(
        "POST",
        "/v1/workloads",
        content=data,
        headers={"Content-Type": media},
        key=session.new_key(),
    )
    workload: dict[str, Any] = answer.json()
    if not wait:
        session.show(workload, *_accepted(workload))
        return
    final = progress.follow(session, workload, timeout)
    session.show(final, progress.sentence(final))
    if final["state"] != "SUCCEEDED":
        click.get_current_context().exit(int(Exit.NEGATIVE))


def read_document(source: str) -> bytes:
    try:
        if source == "-":
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Failure(
            f"{source} cannot be read: {error.strerror}",
            Exit.USAGE,
            code="FILE",
            hint="name a file with one intent, or - for standard input",
        ) from None
    if len(data) > BYTES_MAX:
        raise Failure(f"{source} is larger than 1 MiB", Exit.USAGE, code="TOO_LARGE")
    return data


def _is_json(source: str, data: bytes) -> bool:
    return source.endswith(".json") or (source == "-" and data.lstrip()[:1] == b"{")


def _accepted(workload: dict[str, Any]) -> list[str]:
    key = workload["workload_id"]
    return [
        progress.sentence(workload),
        f"Next: {PROGRAM} logs -f {key}",
        f"      {PROGRAM} explain {key}",
    ]


@click.command(cls=Command)
@click.option("--all", "everything", is_flag=True, help="Also those that ended long ago.")
@TENANT_OPTION
@pass_session
def ps(session: Session, everything: bool, tenant: str) -> None:
    """List workloads, newest first."""
    named = tenant_of(session, tenant)
    if everything:
        workloads = list(session.client.pages("/v1/workloads", "workloads", tenant=named))
    else:
        workloads = session.client.get("/v1/workloads", tenant=named)["workloads"]
    now = progress.now_us()
    columns = ["WORKLOAD", "NAME", "STATE", "WHY", "GPUS", "STARTED", ">FOR"]
    session.show(
        {"workloads": workloads},
        shown.table(columns, [_row(workload, now) for workload in workloads]),
    )


def _row(workload: dict[str, Any], now: int) -> list[Any]:
    intent = workload["intent"] or {}
    job = intent.get("training_job") or {}
    began = workload["started_at"] or workload["submitted_at"]
    lasted = max(0, (workload["ended_at"] or now) - began)
    return [
        workload["workload_id"],
        intent.get("name"),
        shown.styled(workload["state"]),
        progress.why(workload) if workload["state"] != "SUCCEEDED" else None,
        shown.gpus(job["gpu_count"], job["gpu_model"]) if job else None,
        shown.moment_of_today(workload["started_at"], now),
        shown.duration(lasted),
    ]


@click.command(cls=Command)
@TENANT_OPTION
@pass_session
def leases(session: Session, tenant: str) -> None:
    """List leases, newest first."""
    found = session.client.get("/v1/leases", tenant=tenant_of(session, tenant))["leases"]
    rows = [
        [
            one["lease_id"],
            shown.styled(one["state"]),
            shown.gpus(len(one["slots"]), one["gpu_model"]),
            one["node_id"],
            shown.moment(one["activated_at"]),
            shown.moment(one["ended_at"]),
            one["cause"],
        ]
        for one in found
    ]
    columns = ["LEASE", "STATE", "GPUS", "NODE", "ACTIVATED", "ENDED", "CAUSE"]
    session.show({"leases": found}, shown.table(columns, rows))


@key_option
@click.command(cls=Command)
@click.argument("workload")
@pass_session
def stop(session: Session, workload: str) -> None:
    """Ask for the end of a workload.

    WORKLOAD is an id, the beginning of one, or a name.
    """
    client = session.client
    key = naming.own_workload_id(client, workload, to_change=True)
    answer = client.change("POST", f"/v1/workloads/{key}/stop", key=session.key)
    session.show(answer, progress.sentence(answer))
