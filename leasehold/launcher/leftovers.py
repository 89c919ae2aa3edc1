"""Ends processes of this state folder that nobody looks after any more.

A process counts as ours only if its environment or its command names our folder: a process
number on disk may be a stranger's by now.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from signal import SIGKILL, SIGTERM

import psutil

from leasehold.launcher.state import StateFolder

# Set for our children only; LEASEHOLD_STATE may also stand in a user's shell.
MARK = "LEASEHOLD_LAUNCHED_IN"
GRACE_SECONDS = 8


def end_processes(state: StateFolder) -> None:
    """What a launcher that was killed left running: nodes first, servers last."""
    pids = state.read("platform.json").get("pids", {})
    for pid in reversed(list(pids.values())):
        _end([process for process in _find(pid) if _is_ours(process, state)])


def end_jobs(state: StateFolder) -> None:
    """Jobs outlive their agent on purpose; when the machine is given up they end in order."""
    nodes = str(state / "nodes")
    _end(
        process
        for process in psutil.process_iter(["cmdline"])
        if "node_agent.supervisor" in (words := process.info["cmdline"] or [])
        and any(word.startswith(nodes) for word in words)
    )


def _end(processes: Iterable[psutil.Process]) -> None:
    alive = list(processes)
    for signal in (SIGTERM, SIGKILL):
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal)
        deadline = time.monotonic() + GRACE_SECONDS
        while (alive := list(filter(_runs, alive))) and time.monotonic() < deadline:
            time.sleep(0.02)


def _runs(process: psutil.Process) -> bool:
    try:
        # A dead process whose parent does not collect it would be waited for in vain.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _find(pid: int) -> list[psutil.Process]:
    try:
        return [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return []


def _is_ours(process: psutil.Process, state: StateFolder) -> bool:
    home = str(state.path)
    try:
        named = any(home in word for word in process.cmdline())
        return named or process.environ().get(MARK) == home
    except psutil.Error:
        return False
