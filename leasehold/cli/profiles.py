"""Who the user is: profiles with their secrets, and the access token each holds at the moment.

Everything lies in one folder that only its owner may read. A file that others could read is
refused rather than repaired: its secret may be known by now.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leasehold.called import PROGRAM
from leasehold.cli.failures import Exit, Failure

# The profile that `login --operator` makes.
OPERATOR = "operator"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


@dataclass(frozen=True)
class Profile:
    gateway_url: str
    client_id: str
    client_secret: str
    tenant_id: str = ""


@dataclass(frozen=True)
class Token:
    """An access token, for whom and where it is good, and until when (seconds UTC)."""

    access_token: str
    expires_at: int
    client_id: str
    gateway_url: str


class Profiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        return sorted(path.stem for path in (self.folder / "profiles").glob("*.json"))

    def current(self) -> str:
        return str(self._read("current.json").get("profile", ""))

    def use(self, name: str) -> None:
        self.get(name)
        self._write("current.json", {"profile": name})

    def has(self, name: str) -> bool:
        return (self.folder / _file("profiles", name)).exists()

    def get(self, name: str) -> Profile:
        if not self.has(name):
            raise Failure(
                f"there is no profile {name}",
                Exit.UNAUTHENTICATED,
                code="NO_PROFILE",
                hint=self._way_to(name),
            )
        found = self._read(_file("profiles", name))
        try:
            return Profile(**found)
        except TypeError:
            raise _damaged(self.folder / _file("profiles", name)) from None

    def _way_to(self, name: str) -> str:
        """How one comes to have a profile of that name."""
        if name == OPERATOR:
            return f"make it, where the platform runs: {PROGRAM} login --operator"
        known = ", ".join(self.names()) or "none yet"
        return f"you have: {known}; {PROGRAM} signup and {PROGRAM} login make others"

    def save(self, name: str, profile: Profile) -> None:
        """Keep it under that name, as the one to use from now on."""
        self._write(_file("profiles", name), asdict(profile))
        (self.folder / _file("tokens", name)).unlink(missing_ok=True)
        self.use(name)

    def token(self, name: str) -> Token | None:
        found = self._read(_file("tokens", name))
        try:
            return Token(**found) if found else None
        except TypeError:
            return None

    def save_token(self, name: str, token: Token) -> None:
        self._write(_file("tokens", name), asdict(token))

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            with path.open(encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise Failure(
                        f"others can read {path}, which holds a secret",
                        Exit.USAGE,
                        code="PROFILE_EXPOSED",
                        hint=f"chmod 600 {path}, and replace the credential if others use this "
                        "machine",
                    )
                found = json.load(file)
        except FileNotFoundError:
            return {}
        except ValueError:
            raise _damaged(path) from None
        if not isinstance(found, dict):
            raise _damaged(path)
        return found

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace the file at once: two commands at the same time leave one whole file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        descriptor, draft = tempfile.mkstemp(dir=path.parent)  # readable to its owner only
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)


def home(environ: Mapping[str, str]) -> Path:
    named = environ.get("LEASEHOLD_HOME")
    return Path(named) if named else Path.home() / ".config" / "leasehold"


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Failure(
            f"{name!r} cannot be the name of a profile",
            Exit.USAGE,
            code="PROFILE_NAME",
            hint="use letters, digits, dots, dashes and underscores, at most 63",
        )
    return name


def _file(kind: str, name: str) -> str:
    return f"{kind}/{check_name(name)}.json"


def _damaged(path: Path) -> Failure:
    return Failure(
        f"{path} is damaged", Exit.USAGE, code="PROFILE_DAMAGED", hint="remove it and log in again"
    )
