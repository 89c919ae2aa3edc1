"""One of the platform's own processes: a Python module with its environment and its log.

It lives in a session of its own, so that Ctrl-C reaches only the launcher, which then stops
everything in order.
"""

import http.client
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from leasehold.launcher.server import HOST

STOP_SECONDS = 10
LOG_BYTES_MAX = 20_000_000
# Our own processes are never behind a proxy.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Child:
    def __init__(
        self, title: str, module: str, environment: dict[str, str], log: Path, *, ready: str | int
    ) -> None:
        """``ready`` is the URL that answers 200 when the process can work, or just its port."""
        self.title = title
        self.module = module
        self.environment = environment
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self._ready = ready

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def accepts(self) -> bool:
        if isinstance(self._ready, int):
            return _listens(self._ready)
        try:
            with _DIRECT.open(self._ready, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, http.client.HTTPException):
            return False


def shorten(log: Path) -> None:
    """Keep one earlier piece of a log that grew long; the writer appends on, undisturbed."""
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.with_name(f"{log.name}.1").write_bytes(log.read_bytes())
        os.truncate(log, 0)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
