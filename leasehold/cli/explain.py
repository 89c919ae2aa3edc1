"""Why a workload waits, with the numbers, what would help, and where its waiting time went."""

from typing import Any

import click
from rich.text import Text

from leasehold.cli import naming, progress, shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.grammar import Command, pass_session
from leasehold.cli.session import Session

BAR_WIDTH = 40
_STYLES = {
    "NEVER_FITS": "bold red",
    "ENVELOPE": "red",
    "BUDGET": "magenta",
    "QUOTA": "yellow",
    "CAPACITY": "cyan",
    "PRIORITY": "blue",
    "HELD": "white",
}


@click.command(cls=Command)
@click.argument("workload")
@TENANT_OPTION
@pass_session
def explain(session: Session, workload: str, tenant: str) -> None:
    """Say why a workload waits and what would let it start.

    WORKLOAD is an id, the beginning of one, or a name.
    """
    client = session.client
    key = naming.workload_id(client, workload, tenant_of(session, tenant))
    answer = client.get(f"/v1/workloads/{key}/explain")
    session.show(answer, *drawn(answer, progress.now_us()))


def drawn(answer: dict[str, Any], now: int) -> list[Any]:
    workload = answer["workload"]
    job = (workload["intent"] or {}).get("training_job") or {}
    model = job.get("gpu_model", "")
    rows: list[tuple[str, Any]] = [("asked for", shown.gpus(answer["gpus_requested"], model))]
    rows += [("quota", f"{answer['quota_gpus_used']} of {answer['quota_gpus']} {model} in use")]
    if workload["state"] == "QUEUED":
        rows.append(("position", f"{workload['position']} ({answer['ahead']} ahead)"))
        rows.append(("reason", f"{workload['reason'] or 'not looked at yet'}"))
        rows.append(("detail", workload["detail"]))
    parts: list[Any] = [progress.sentence(workload, detail=False), shown.pairs(rows)]
    if answer["remedies"]:
        parts += ["What would help:", *(f"  • {shown.plain(one)}" for one in answer["remedies"])]
    if answer["waits"]:
        parts += ["Waiting:", timeline(answer["waits"], now)]
    return parts


def timeline(waits: list[dict[str, Any]], now: int) -> Any:
    """One line per interval, each drawn where it lies in the whole."""
    begin = waits[0]["from"]
    ends = [wait["until"] or max(now, wait["from"]) for wait in waits]
    whole = max(1, max(ends) - begin)
    rows = []
    for wait, until in zip(waits, ends, strict=True):
        reason = wait["reason"] or "?"
        start, stop = span(wait["from"] - begin, until - begin, whole)
        bar = Text.assemble(
            ("·" * start, "dim"),
            ("█" * (stop - start), _STYLES.get(reason, "")),
            ("·" * (BAR_WIDTH - stop), "dim"),
        )
        lasted = shown.duration(until - wait["from"]) + ("" if wait["until"] else " so far")
        after = f"+{shown.duration(wait['from'] - begin)}"
        detail = Text(shown.plain(wait["detail"] or " "), style="dim")
        rows.append([after, bar, reason, lasted, detail])
    return shown.table([">", "", "", "", ""], rows, prose=True)


def span(begin: int, end: int, whole: int) -> tuple[int, int]:
    """The cells of the bar that an interval fills; the shortest still fills one."""
    start = min(begin * BAR_WIDTH // whole, BAR_WIDTH - 1)
    return start, max(start + 1, min(BAR_WIDTH, -(-end * BAR_WIDTH // whole)))
