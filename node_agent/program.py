"""One tenant program in a session of its own: held, released, signalled, reaped, cleaned up after.

Between fork and exec the child waits for ``release``, so that its pid is on disk before anything
of the tenant runs. If the supervisor dies the kernel kills the program (and a child that was
never released ends by itself): no program runs without somebody who enforces its lease.
Imports stay few: every job's supervisor loads this file.
"""

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NICE_MAX = 19
_libc = ctypes.CDLL(None, use_errno=True)


class StartFailed(Exception):
    """The program could not be executed."""


class Program:
    def __init__(self, command: list[str], environment: dict[str, str], folder: str) -> None:
        # Descendants that leave the process group still come back to us when orphaned.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.output, output = os.pipe()
        held, self._hold = os.pipe()
        self._failure, failure = os.pipe()
        self.output_open = True
        self.exit_code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._hold)
            _become(command, environment, folder, held=held, output=output, failure=failure)
        for descriptor in (held, output, failure):
            os.close(descriptor)
        os.set_blocking(self.output, False)

    def release(self) -> None:
        """Lets the program begin; returns when it has, or says why it could not."""
        os.write(self._hold, b"1")
        os.close(self._hold)
        with os.fdopen(self._failure, "rb") as failure:
            reason = failure.read()
        if reason:
            raise StartFailed(reason.decode())

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def throttle(self, throttled: bool) -> None:
        """Gives way to everything else, or not. Without privileges only the first works."""
        niceness = _NICE_MAX if throttled else os.getpriority(os.PRIO_PROCESS, 0)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.pid, niceness)

    def reap(self) -> bool:
        """True once the program itself has exited; collects adopted descendants on the way."""
        while self.exit_code is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.pid:
                code = os.waitstatus_to_exitcode(status)
                self.exit_code = code if code >= 0 else 128 - code
        return self.exit_code is not None

    def kill_rest(self) -> None:
        """Kills what the program left behind, wherever it has moved to, until nothing is left."""
        self.signal(signal.SIGKILL)
        while True:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def read_output(self) -> bytes | None:
        """What was printed since the last time; b"" at the end, None if there is nothing now."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return None
        self.output_open = bool(data)
        return data


def _become(
    command: list[str],
    environment: dict[str, str],
    folder: str,
    *,
    held: int,
    output: int,
    failure: int,
) -> None:
    """Turns the forked child into the program. Never returns."""
    try:
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # An ignored signal stays ignored across exec; the tenant gets the usual defaults.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if os.read(held, 1):
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
    except (OSError, ValueError) as error:
        os.write(failure, str(error).encode())
    finally:
        os._exit(127)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
