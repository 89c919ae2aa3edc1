"""``python -m node_agent.supervisor <job folder>``: runs one job and outlives the agent.

The folder is the whole conversation. The agent writes spec.json once and desired.json whenever
its wishes change; the supervisor writes started.json, heartbeat.json, exited.json, output.log and
the workload's control.json. Holding supervisor.lock means being alive.

started.json is on disk before the program begins, and exited.json is written once: together they
make every microsecond of a job countable whoever is killed when. The lease's deadline is enforced
here, because this is the process that is left when the agent is gone. Imports stay few: a job
waits for them.
"""

import fcntl
import os
import select
import signal
import sys
import time
from typing import Any

from node_agent import durable
from node_agent.program import Program, StartFailed
from node_agent.uptime import boot_id, uptime_us

SECOND = 1_000_000
POLL_US = SECOND // 5
HEARTBEAT_US = SECOND
# A lease must not outlive its expiry, so the program is asked to stop shortly before.
EXPIRY_NOTICE_US = SECOND
LIMIT_GRACE_US = 5 * SECOND
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
_LOCK_ATTEMPTS = 100
_NO_EXIT_CODE = -1


def ending(
    now: int, started: int, spec: dict[str, Any], desired: dict[str, Any]
) -> tuple[str, int] | None:
    """Why the program has to end and when it is killed at the latest, or None if it may run on."""
    deadline = int(desired["deadline_us"])
    seconds_max = int(spec["seconds_max"])
    if now >= deadline - EXPIRY_NOTICE_US:
        return "EXPIRED", deadline
    if seconds_max and now >= started + seconds_max * SECOND:
        return "LIMIT", min(now + LIMIT_GRACE_US, deadline)
    if desired["stop"]:
        return "STOPPED", min(now + int(desired["grace_us"]), deadline)
    return None


class Supervisor:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._spec = durable.read(self._path("spec.json")) or {}
        self._desired = self._spec["desired"]
        self._desired_seen: tuple[int, int] = (0, 0)
        self._control: dict[str, Any] = {}
        self._cause, self._kill_at, self._killed = "", 0, False
        self._heartbeat_at = 0
        self._output_bytes = 0

    def run(self) -> None:
        self._read_desired()
        now = uptime_us()
        if end := ending(now, now, self._spec, self._desired):
            self._exited(run_us=0, exit_code=_NO_EXIT_CODE, cause=end[0])
            return
        wake = _wake_on_child_exit()
        work = self._path("work")
        os.makedirs(work, exist_ok=True)
        program = Program(self._spec["command"], self._spec["environment"], work)
        # Whoever shuts the machine down gives the tenant a moment, too.
        signal.signal(signal.SIGTERM, lambda *_: self._end(program, "STOPPED", LIMIT_GRACE_US))
        self._publish_control(program)
        started = uptime_us()
        durable.write(self._path("started.json"), _started(program.pid, started))
        try:
            program.release()
        except StartFailed as failure:
            program.kill_rest()
            self._exited(run_us=0, exit_code=127, cause="", error=str(failure))
            return
        run_us = self._watch(program, started, wake)
        self._exited(run_us=run_us, exit_code=program.exit_code or 0, cause=self._cause)

    def _watch(self, program: Program, started: int, wake: int) -> int:
        """Runs the program to its end; returns how long that took."""
        with open(self._path("output.log"), "ab", buffering=0) as log:
            while not program.reap():
                self._step(program, started)
                self._wait(program, started, wake)
                self._copy(program, log)
            run_us = uptime_us() - started
            program.kill_rest()
            while self._copy(program, log):
                pass
        return run_us

    def _step(self, program: Program, started: int) -> None:
        """Everything that is due now."""
        now = uptime_us()
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + HEARTBEAT_US
            self._try_write("heartbeat.json", {"run_us": now - started})
        if self._read_desired():
            self._publish_control(program)
        if end := ending(now, started, self._spec, self._desired):
            self._end(program, end[0], end[1] - now)
        if self._cause and not self._killed and now >= self._kill_at:
            self._killed = True
            program.signal(signal.SIGKILL)

    def _end(self, program: Program, cause: str, grace_us: int) -> None:
        """Asks the program to stop; the first cause stays, and a later one can only hasten it."""
        kill_at = uptime_us() + grace_us
        if self._cause:
            self._kill_at = min(self._kill_at, kill_at)
            return
        self._cause, self._kill_at = cause, kill_at
        program.signal(signal.SIGTERM)

    def _wait(self, program: Program, started: int, wake: int) -> None:
        """Sleeps until the program prints or exits, or something is due."""
        now = uptime_us()
        due = [now + POLL_US, self._heartbeat_at]
        if self._cause and not self._killed:
            due.append(self._kill_at)
        elif not self._cause:
            due.append(self._desired["deadline_us"] - EXPIRY_NOTICE_US)
            if self._spec["seconds_max"]:
                due.append(started + self._spec["seconds_max"] * SECOND)
        sources = [wake, program.output] if program.output_open else [wake]
        ready, _, _ = select.select(sources, [], [], max(0, min(due) - now) / SECOND)
        if wake in ready:
            os.read(wake, 4096)

    def _copy(self, program: Program, log: Any) -> bool:
        """Moves waiting output into the log; beyond its bound output is read and dropped."""
        data = program.read_output()
        if data and self._output_bytes < OUTPUT_BYTES_MAX:
            self._output_bytes += len(data)
            if self._output_bytes >= OUTPUT_BYTES_MAX:
                data += b"\n[leasehold] the output reached its limit; the rest is not kept\n"
            try:
                log.write(data)
            except OSError:
                self._output_bytes -= len(data)
        return bool(data)

    def _read_desired(self) -> bool:
        """True if the agent's wishes changed."""
        path = self._path("desired.json")
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return False
        seen = (status.st_mtime_ns, status.st_ino)
        if seen == self._desired_seen:
            return False
        self._desired = durable.read(path) or self._desired
        self._desired_seen = seen
        return True

    def _publish_control(self, program: Program) -> None:
        """Tells the workload what is asked of it; the constraint is also imposed from outside."""
        desired = self._desired
        control = {
            "constraint": desired["constraint"],
            "stop_cause": desired["stop_cause"] if desired["stop"] else "",
        }
        if control != self._control:
            self._control = control
            self._try_write("control.json", control)
            program.throttle(control["constraint"] == "throttle")

    def _exited(self, *, run_us: int, exit_code: int, cause: str, error: str = "") -> None:
        facts = {"run_us": run_us, "exit_code": exit_code, "cause": cause, "error": error}
        while True:
            try:
                durable.write(self._path("exited.json"), facts)
                return
            except OSError as failure:
                # A full disk must not lose the end of a job; somebody will make room.
                print(f"exited.json: {failure}", file=sys.stderr)
                time.sleep(1)

    def _try_write(self, name: str, value: dict[str, Any]) -> None:
        try:
            durable.write(self._path(name), value, sync=False)
        except OSError as failure:
            print(f"{name}: {failure}", file=sys.stderr)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


def _started(pid: int, started_us: int) -> dict[str, Any]:
    return {"boot_id": boot_id(), "pid": pid, "started_us": started_us}


def _wake_on_child_exit() -> int:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable


def _lock(folder: str) -> int | None:
    """Takes the lock, waiting out an agent that is only looking; None if the job has somebody."""
    descriptor = os.open(os.path.join(folder, "supervisor.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            time.sleep(0.02)
    return None


def main(folder: str) -> None:
    if _lock(folder) is None:
        return
    # What has begun is never begun again: the agent decides what became of it.
    for name in ("started.json", "exited.json"):
        if os.path.exists(os.path.join(folder, name)):
            return
    Supervisor(folder).run()


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
