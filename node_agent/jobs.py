"""The jobs of a node as their folders tell it; ``supervisor`` is the other side of each folder.

Nothing about a job is kept only in memory, so an agent that was killed sees after its restart
what it would have seen without. Whether a supervisor lives is asked of its lock, never of a pid.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import node_agent
from node_agent import durable
from node_agent.policy import NO_EXIT_CODE, Desired, JobState, Run
from node_agent.uptime import boot_id, uptime_us

# Tells the workload where its control file is, and us which processes belong to which job.
_MARK = "LEASEHOLD_CONTROL_FILE"
_IMPORTS = Path(node_agent.__file__).parent.parent


class Jobs:
    def __init__(self, folder: Path, metered_us: Callable[[str], int]) -> None:
        """``metered_us`` of a lease has been reported; its run cannot have been shorter."""
        self._folder = folder.absolute()
        self._metered_us = metered_us
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for unfinished in self._folder.glob(".*"):
            shutil.rmtree(unfinished)
        # What does not change any more need not be read again.
        self._ended: dict[str, Run] = {}
        self._fixed: dict[tuple[str, str], dict[str, Any]] = {}
        self._desired: dict[str, Desired] = {}
        # Supervisors that this agent started, by pid.
        self._children: dict[int, str] = {}

    def prepare(self, lease_id: str, spec: dict[str, Any], desired: Desired) -> None:
        """Makes the folder of a job, whole or not at all; an existing one stays."""
        folder, new = self._folder / lease_id, self._folder / f".{lease_id}"
        if folder.exists():
            return
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        environment = {**spec["environment"], _MARK: self._mark(lease_id)}
        spec = {**spec, "environment": environment, "desired": asdict(desired)}
        durable.write(str(new / "spec.json"), spec)
        new.rename(folder)
        durable.sync_folder(str(self._folder))

    def start(self, lease_id: str, desired: Desired) -> None:
        """Starts the supervisor of a prepared job. Starting twice is starting once."""
        self.change(lease_id, desired)
        folder = str(self._folder / lease_id)
        log = (f"{folder}/supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        pid = os.posix_spawn(
            sys.executable,
            # Without site-packages, which it does not need and which take their time.
            [sys.executable, "-SP", "-m", "node_agent.supervisor", folder],
            {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(_IMPORTS)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, *log),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._children[pid] = lease_id

    def change(self, lease_id: str, desired: Desired) -> None:
        durable.write(str(self._folder / lease_id / "desired.json"), asdict(desired))
        self._desired[lease_id] = desired

    def abandon(self, lease_id: str) -> None:
        """Ends a job of which nothing has run, unless a supervisor has it after all."""
        with self._locked(lease_id) as free:
            if free and not self._has(lease_id, "started.json"):
                self._conclude(lease_id, run_us=0, cause="STOPPED")

    def forget(self, lease_id: str) -> None:
        # Renamed first: a folder is there with all its files or not at all.
        gone = self._folder / f".{lease_id}"
        with contextlib.suppress(FileNotFoundError):
            (self._folder / lease_id).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._ended.pop(lease_id, None)
        self._desired.pop(lease_id, None)
        for name in ("spec.json", "started.json"):
            self._fixed.pop((lease_id, name), None)

    def runs(self) -> list[Run]:
        self._reap()
        names = sorted(path.name for path in self._folder.iterdir() if path.name[0] != ".")
        return [self._ended.get(name) or self._look(name) for name in names]

    def output(self, lease_id: str, offset: int, size: int) -> bytes:
        try:
            with open(self._folder / lease_id / "output.log", "rb") as log:
                log.seek(offset)
                return log.read(size)
        except FileNotFoundError:
            return b""

    def _look(self, lease_id: str) -> Run:
        spec = self._read_fixed(lease_id, "spec.json") or {}
        facts = self._read(lease_id, "exited.json") or self._lost(lease_id)
        started = self._read_fixed(lease_id, "started.json")
        identity: dict[str, Any] = {
            "lease_id": lease_id,
            "fencing_token": spec["fencing_token"],
            "slots": tuple(spec["slots"]),
            "desired": self._last_desired(lease_id, spec),
            "boot_id": started["boot_id"] if started else boot_id(),
        }
        if facts:
            ended = Run(state=JobState.EXITED, proven_us=facts["run_us"], **identity, **facts)
            self._ended[lease_id] = ended
            return ended
        if not started:
            busy = lease_id in self._children.values() or not self._free(lease_id)
            return Run(state=JobState.RUNNING if busy else JobState.PREPARED, **identity)
        heartbeat = self._read(lease_id, "heartbeat.json")
        return Run(
            state=JobState.RUNNING,
            run_us=uptime_us() - started["started_us"],
            proven_us=heartbeat["run_us"] if heartbeat else 0,
            begun=heartbeat is not None,
            **identity,
        )

    def _lost(self, lease_id: str) -> dict[str, Any] | None:
        """Concludes a run whose supervisor is gone without a word; None if it is not."""
        with self._locked(lease_id) as free:
            if not free or not self._has(lease_id, "started.json"):
                return None
            if not self._has(lease_id, "exited.json"):
                _kill(f"{_MARK}={self._mark(lease_id)}".encode())
                heartbeat = self._read(lease_id, "heartbeat.json") or {"run_us": 0}
                run_us = max(heartbeat["run_us"], self._metered_us(lease_id))
                self._conclude(lease_id, run_us=run_us, cause="NODE_LOST")
        return self._read(lease_id, "exited.json")

    def _conclude(self, lease_id: str, *, run_us: int, cause: str) -> None:
        facts = {"run_us": run_us, "exit_code": NO_EXIT_CODE, "cause": cause, "error": ""}
        if not self._has(lease_id, "exited.json"):
            durable.write(str(self._folder / lease_id / "exited.json"), facts)

    def _free(self, lease_id: str) -> bool:
        with self._locked(lease_id) as free:
            return free

    @contextlib.contextmanager
    def _locked(self, lease_id: str) -> Iterator[bool]:
        """True while we hold the job's lock, False if its supervisor lives."""
        path = self._folder / lease_id / "supervisor.lock"
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def _reap(self) -> None:
        for pid in list(self._children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._children[pid]

    def _mark(self, lease_id: str) -> str:
        return str(self._folder / lease_id / "control.json")

    def _has(self, lease_id: str, name: str) -> bool:
        return (self._folder / lease_id / name).exists()

    def _last_desired(self, lease_id: str, spec: dict[str, Any]) -> Desired:
        if lease_id not in self._desired:
            document = self._read(lease_id, "desired.json") or spec["desired"]
            self._desired[lease_id] = Desired(**document)
        return self._desired[lease_id]

    def _read_fixed(self, lease_id: str, name: str) -> dict[str, Any] | None:
        if (lease_id, name) not in self._fixed:
            value = self._read(lease_id, name)
            if value is None:
                return None
            self._fixed[lease_id, name] = value
        return self._fixed[lease_id, name]

    def _read(self, lease_id: str, name: str) -> dict[str, Any] | None:
        return durable.read(str(self._folder / lease_id / name))


def _kill(mark: bytes) -> None:
    """Kills what is left of a job. Its environment gives a process away wherever it moved."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
