"""Files for finance: FOCUS datasets as CSV or Parquet, and the check of one.

A file appears whole or not at all: it is written beside its place and moved there at the end.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import click
import httpx

from leasehold.cli import shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Commands, pass_session
from leasehold.cli.session import Session

_DATASETS = ("CostAndUsage", "InvoiceDetail", "BillingPeriod", "ContractCommitment")
_TIMEOUT = httpx.Timeout(900.0, connect=5.0)


@click.group(cls=Commands)
def export() -> None:
    """Export charges and invoices as FOCUS 1.4 files, and check such files."""


def _options(command: click.Command) -> click.Command:
    for option in reversed(
        (
            click.option("--dataset", type=click.Choice(_DATASETS), default="CostAndUsage"),
            click.option("--from", "from_", default="", metavar="TIME", help="Such as 2026-01-31."),
            click.option("--until", default="", metavar="TIME", help="The first time left out."),
            click.option("--position", default=0, help="As known at this position of the log."),
            TENANT_OPTION,
            click.option(
                "--to", "target", type=click.Path(path_type=Path), required=True, metavar="FILE"
            ),
        )
    ):
        command = option(command)
    return command


@export.command()
@_options  # type: ignore[arg-type]
@pass_session
def focus(
    session: Session,
    dataset: str,
    from_: str,
    until: str,
    position: int,
    tenant: str,
    target: Path,
) -> None:
    """Write a dataset as CSV."""
    _write(session, "csv", dataset, from_, until, position, tenant, target)


@export.command()
@_options  # type: ignore[arg-type]
@pass_session
def parquet(
    session: Session,
    dataset: str,
    from_: str,
    until: str,
    position: int,
    tenant: str,
    target: Path,
) -> None:
    """Write a dataset as Parquet, sorted by tenant and time."""
    _write(session, "parquet", dataset, from_, until, position, tenant, target)


def _write(
    session: Session,
    form: str,
    dataset: str,
    from_: str,
    until: str,
    position: int,
    tenant: str,
    target: Path,
) -> None:
    query = {
        "dataset": dataset,
        "format": form,
        "from": str(instant(from_, "--from")),
        "until": str(instant(until, "--until")),
        "position": str(position),
    }
    if named := tenant_of(session, tenant):
        query["tenant"] = named
    beside = target.with_name(f".{target.name}.part")
    try:
        with session.client.stream("/v1/exports/focus", query, timeout=_TIMEOUT) as response:
            with beside.open("wb") as file:
                for piece in response.iter_bytes():
                    file.write(piece)
            seen = response.headers.get("x-log-position", "")
        os.replace(beside, target)
    except httpx.TransportError as error:
        raise Failure(
            f"the export broke off ({error}); {target} is as it was",
            Exit.UNAVAILABLE,
            code="GATEWAY_AWAY",
            hint="run it again",
        ) from None
    finally:
        beside.unlink(missing_ok=True)
    document = {"file": str(target), "bytes": target.stat().st_size, "position": int(seen or 0)}
    lines = [("file", str(target)), ("bytes", document["bytes"]), ("log position", seen)]
    session.show(document, shown.pairs(lines))


def instant(text: str, option: str) -> int:
    """A day or a time of UTC in microseconds; 0 for none."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(
            f"{option}: {text!r} is no time", Exit.USAGE, code="TIME", hint="such as 2026-01-31"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000


@export.command("check")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--dataset", type=click.Choice(_DATASETS), help="If not the one its columns tell.")
@click.option(
    "--details",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Its InvoiceDetail, to compare what each invoice line sums up to.",
)
@pass_session
def check(session: Session, file: Path, dataset: str | None, details: Path | None) -> None:
    """Check a FOCUS file: columns, types, nulls, values, and rules between rows.

    Works on files from anywhere, without a platform. Exit code 1 if anything is wrong.
    """
    from billing.exports.conformance import check as findings_of

    try:
        findings = findings_of(file, dataset=dataset or "", details=details)
    except (UnicodeDecodeError, ValueError) as error:
        raise Failure(f"{file} cannot be read: {error}", Exit.USAGE, code="FILE") from None
    document = {
        "file": str(file),
        "findings": [
            {"rule": one.rule, "row": one.row, "column": one.column, "detail": one.detail}
            for one in findings
        ],
    }
    lines = [f"✗ {shown.plain(str(one))}" for one in findings]
    session.show(document, *(lines or [f"✓ {file} conforms to FOCUS 1.4"]))
    if findings:
        click.get_current_context().exit(int(Exit.NEGATIVE))
