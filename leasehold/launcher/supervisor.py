"""Keeps one program running until told otherwise.

A program that ends by itself, or is killed, is started again after a pause that grows while it
keeps ending early. Starting, killing and stopping exclude each other, so that a program that is
held down or stopped cannot come back by a restart that was already under way.
"""

import contextlib
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Protocol

from leasehold.launcher.server import StartFailed

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
# A program that lived this long was well; its next restart does not wait.
STEADY_SECONDS = 5.0
EXIT_SETTINGS = 2
EARLY_EXITS_MAX = 4


class Program(Protocol):
    title: str
    log: Path
    process: subprocess.Popen[bytes] | None

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def accepts(self) -> bool: ...


class Supervisor:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.restarts = 0
        self._state = threading.Condition(threading.RLock())
        self._held = False
        self._stopping = False
        self._was_ready = False
        self._watcher: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        process = self.program.process
        return process.pid if process and process.poll() is None else None

    def start(self) -> None:
        with self._state:
            self.program.start()
            process = self.program.process
        self._watcher = threading.Thread(target=self._watch, args=(process,), daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """End the program in order; it stays down."""
        with self._state:
            self._stopping = True
            self._state.notify_all()
            self.program.stop()
        if self._watcher:
            self._watcher.join()

    def kill(self) -> None:
        """SIGKILL; the program comes back by itself."""
        with self._state:
            self.program.kill()

    def hold_down(self) -> None:
        """SIGKILL; the program stays down until released."""
        with self._state:
            self._held = True
            self._state.notify_all()
            self.program.kill()

    def release(self) -> None:
        with self._state:
            self._held = False
            self._state.notify_all()

    def is_ready(self) -> bool:
        ready = self.pid is not None and self.program.accepts()
        self._was_ready = self._was_ready or ready
        return ready

    def failure(self) -> str | None:
        """Why waiting for a first readiness is in vain, if it is."""
        hopeful = self.restarts < EARLY_EXITS_MAX and not self._refuses_settings()
        if self._was_ready or hopeful:
            return None
        return f"{self.program.title} does not start: {last_words(self.program.log)}"

    def _refuses_settings(self) -> bool:
        process = self.program.process
        return process is not None and process.poll() == EXIT_SETTINGS

    def _watch(self, process: subprocess.Popen[bytes] | None) -> None:
        pause = PAUSE_SECONDS_MIN
        while True:
            began = time.monotonic()
            if process is not None:
                process.wait()
            lived = time.monotonic() - began
            pause = (
                PAUSE_SECONDS_MIN if lived > STEADY_SECONDS else min(pause * 2, PAUSE_SECONDS_MAX)
            )
            with self._state:
                self._state.wait_for(lambda: self._stopping or self._held, timeout=pause)
                self._state.wait_for(lambda: self._stopping or not self._held)
                if self._stopping:
                    return
                process = self._restart()

    def _restart(self) -> subprocess.Popen[bytes] | None:
        self.restarts += 1
        try:
            self.program.start()
        except StartFailed:
            return None
        return self.program.process


def last_words(log: Path) -> str:
    """The last line of a log, without its structure, and where to read on."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    line = lines[-1] if lines else "it said nothing"
    with contextlib.suppress(ValueError, KeyError, TypeError):
        line = json.loads(line)["message"]
    return f"{line} (log: {log})"
