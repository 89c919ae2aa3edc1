"""One server process, its data folder, its log and its lock.

The lock beside the folder belongs to whoever started the server. A server found running while
nobody holds that lock was left behind by a launcher that was killed; it is ended first, so that
two servers never work on the same data.
"""

import fcntl
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import psutil

from leasehold.launcher.account import Account, Unreachable

HOST = "127.0.0.1"
START_SECONDS = 60
STOP_SECONDS = 15


class StartFailed(Exception):
    """A server could not be started; the text is the sentence to show."""


class Server(ABC):
    title: str
    stop_signal: signal.Signals

    def __init__(self, home: Path, port: int, log: Path | None = None) -> None:
        self.home = home.resolve()
        self.port = port
        self.log = log.resolve() if log else self._beside(".log")
        self.process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    def start(self) -> None:
        """Return when the server accepts connections; raise StartFailed when it will not."""
        try:
            self.home.parent.mkdir(parents=True, exist_ok=True)
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._end_leftover()
            self._check_port()
            said_before = self.log.stat().st_size if self.log.exists() else 0
            self.process = self._launch()
            self._await_ready(said_before)
        except (OSError, Unreachable) as error:
            self.stop()
            raise StartFailed(self._explain(str(error))) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server cleanly and give up the folder."""
        if self.process is not None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def kill(self) -> None:
        """SIGKILL the server and all its children at once."""
        if self.process is not None:
            _kill_tree(self.process.pid)
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    @abstractmethod
    def accepts(self) -> bool:
        """Does the server answer a client now?"""

    @abstractmethod
    def _launch(self) -> subprocess.Popen[bytes]:
        """Prepare the folder and run the server; see ``_run``."""

    @property
    @abstractmethod
    def _pid_file(self) -> Path:
        """Where the server leaves its process id."""

    def _run(self, command: list[str], account: Account | None = None) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C reaches the launcher only, which then stops things in order.
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )

    def _beside(self, suffix: str) -> Path:
        return self.home.with_name(self.home.name + suffix)

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        lock = os.open(self._beside(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StartFailed(
                f"{self.title} with its data in {self.home} is already run by another launcher"
            ) from None
        self._lock = lock

    def _end_leftover(self) -> None:
        try:
            pid = int(self._pid_file.read_text().split()[0])
        except (FileNotFoundError, ValueError, IndexError):
            return
        if _serves(pid, self.home):
            os.kill(pid, self.stop_signal)
            if not _within(STOP_SECONDS, lambda: not _serves(pid, self.home)):
                _kill_tree(pid)
        # The number may be a stranger's by now; PostgreSQL would take that for a running server.
        self._pid_file.unlink(missing_ok=True)

    def _check_port(self) -> None:
        # Asked beforehand, because a stranger on the port could also be taken for our server.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, self.port))

    def _await_ready(self, said_before: int) -> None:
        process = self.process
        assert process is not None
        _within(START_SECONDS, lambda: process.poll() is not None or self.accepts())
        if process.poll() is None and self.accepts():
            return
        with self.log.open("rb") as log:
            log.seek(said_before)
            raise StartFailed(self._explain(log.read().decode(errors="replace")))

    def _explain(self, said: str) -> str:
        if "address already in use" in said.lower():
            return f"{self.title} did not start: port {self.port} is in use by another program"
        if "no space left on device" in said.lower():
            return f"{self.title} did not start: the disk that holds {self.home} is full"
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        return f"{self.title} did not start: {last[0].strip()} (log: {self.log})"


def _serves(pid: int, home: Path) -> bool:
    try:
        process = psutil.Process(pid)
        return _runs(process) and any(str(home) in word for word in process.cmdline())
    except psutil.Error:
        return False


def _kill_tree(pid: int) -> None:
    try:
        server = psutil.Process(pid)
        family = [server, *server.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    _within(STOP_SECONDS, lambda: not any(map(_runs, family)))


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
