"""The one folder that holds everything a local platform remembers.

Whoever holds the lock owns the folder: nothing in it is written without it. Secrets are made
once and kept, because the servers in the folder remember them too.
"""

import fcntl
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

LAYOUT = "1"
SPACE_MB_MIN = 200


class CannotStart(Exception):
    """The platform cannot start; the text is the one sentence to show."""


class StateFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock: int | None = None

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def open(self) -> None:
        """Own the folder, in which a platform can run, or say in one sentence why not."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.refuse_little_space(shutil.disk_usage(self.path).free)
            self.own()
            self._check_layout()
        except OSError as error:
            raise CannotStart(f"the state folder {self.path} cannot be used: {error}") from error

    def own(self) -> None:
        """Take the lock of a folder that is ours or empty, whatever version wrote it."""
        if not any(self.path.iterdir()):
            write_private(self / "VERSION", LAYOUT)
        if not (self / "VERSION").exists():
            raise CannotStart(
                f"{self.path} holds something else than a platform's state; "
                "name another folder with LEASEHOLD_STATE"
            )
        self._take_lock()

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def refuse_little_space(self, free_bytes: int) -> None:
        free_mb = free_bytes // 1_000_000
        if free_mb < SPACE_MB_MIN:
            raise CannotStart(
                f"the disk that holds {self.path} has {free_mb} MB left and the platform needs "
                f"{SPACE_MB_MIN} MB; make room or name another folder with LEASEHOLD_STATE"
            )

    def secret(self, name: str) -> str:
        """The secret of that name, made when it is first asked for."""
        kept = self.read("secrets.json")
        if name not in kept:
            kept[name] = secrets.token_urlsafe(24)
            self.write("secrets.json", kept)
        return str(kept[name])

    def read(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self / name).read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            raise CannotStart(
                f"{self / name} is damaged; remove all state with `make wipe`"
            ) from None
        return content

    def write(self, name: str, content: dict[str, Any]) -> None:
        write_private(self / name, json.dumps(content, indent=2) + "\n")

    def _take_lock(self) -> None:
        lock = os.open(self / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 20).decode() or "unknown"
            os.close(lock)
            raise CannotStart(
                f"a platform is already running on {self.path} (process {holder}); "
                "use that one, or stop it first"
            ) from None
        os.truncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock

    def _check_layout(self) -> None:
        found = (self / "VERSION").read_text().strip()
        if found != LAYOUT:
            self.close()
            raise CannotStart(
                f"{self.path} was written by another version of Leasehold (layout {found!r}, "
                f"this one reads {LAYOUT!r}); go back to that version, or remove all its data "
                "with `make wipe`"
            )


def write_private(path: Path, text: str) -> None:
    """Replace the file at once; at no moment can others read it or see half of it."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
