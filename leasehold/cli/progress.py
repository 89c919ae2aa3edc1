"""A workload as it comes along: one line per change, and a live line where there is a terminal.

Waiting is only looking: interrupting it leaves the workload alone.
"""

import sys
import time
from typing import Any

from rich.status import Status
from rich.text import Text

from leasehold.called import PROGRAM
from leasehold.cli import shown
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.naming import ENDED
from leasehold.cli.session import Session, console

LOOK_SECONDS = 0.5
# How long a silent gateway is waited for.
AWAY_SECONDS = 300


def now_us() -> int:
    return time.time_ns() // 1000


def why(workload: dict[str, Any]) -> str:
    """Why it waits, or why it ended."""
    if workload["state"] == "QUEUED":
        reason = workload["reason"] or "new"
        return f"{reason}, position {workload['position']}" if workload["position"] else reason
    if workload["state"] in ENDED and workload["cause"]:
        code = f" {workload['exit_code']}" if workload["cause"] == "EXITED" else ""
        return f"{workload['cause']}{code}"
    return ""


def sentence(workload: dict[str, Any], *, detail: bool = True) -> str:
    """State, reason and numbers in one line."""
    name = (workload["intent"] or {}).get("name", "")
    said = f"{name} {workload['workload_id']} is {workload['state']}"
    if (reason := why(workload)) and reason != workload["state"]:
        said += f" ({reason})"
    if workload["state"] == "QUEUED" and workload["detail"] and detail:
        said += f": {workload['detail']}"
    if workload["state"] in ENDED and workload["started_at"]:
        said += f" after {shown.duration(workload['ended_at'] - workload['started_at'])}"
    return shown.plain(said)


def follow(session: Session, workload: dict[str, Any], timeout: int | None) -> dict[str, Any]:
    """The workload once it has ended; every change on the way is told."""
    try:
        if console(sys.stderr).is_terminal and not session.as_json:
            with console(sys.stderr).status("") as live:
                return _follow(session, workload, timeout, live)
        return _follow(session, workload, timeout, None)
    except KeyboardInterrupt:
        key = workload["workload_id"]
        session.tell("\nThe workload goes on.")
        session.tell(f"Look: {PROGRAM} ps   End it: {PROGRAM} stop {key}")
        raise


def _follow(
    session: Session, workload: dict[str, Any], timeout: int | None, live: Status | None
) -> dict[str, Any]:
    began, told = time.monotonic(), ""
    while True:
        said = sentence(workload)
        if workload["state"] in ENDED:
            return workload
        passed = time.monotonic() - began
        clock = shown.duration(int(passed * shown.SECOND_US))
        if live is not None:
            live.update(Text.assemble(said, (f"  {clock}", "dim")))
        if said != told:
            _tell(session, live, f"{clock:>9}  {said}")
            told = said
        if timeout is not None and passed > timeout:
            raise _too_long(workload, timeout)
        time.sleep(LOOK_SECONDS)
        workload = _look(session, live, workload["workload_id"])


def _tell(session: Session, live: Status | None, line: str) -> None:
    """A line of its own; the live line moves down."""
    if live is not None:
        live.console.print(Text(line), soft_wrap=True)
    else:
        session.tell(line)


def _look(session: Session, live: Status | None, key: str) -> dict[str, Any]:
    """The workload now; a gateway that is away for a while does not end the waiting."""
    deadline = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return session.client.get(f"/v1/workloads/{key}")
        except Failure as failure:
            if failure.exit_code != Exit.UNAVAILABLE or time.monotonic() > deadline:
                raise
            _tell(session, live, f"{'':>9}  {failure.message}; still waiting")


def _too_long(workload: dict[str, Any], timeout: int) -> Failure:
    key = workload["workload_id"]
    return Failure(
        f"{key} has not ended within {timeout} s",
        Exit.UNAVAILABLE,
        code="WAIT_TIMEOUT",
        hint=f"it goes on; {PROGRAM} explain {key} says where it stands",
    )
