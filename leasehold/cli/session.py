"""One run of the command line: who asks, which gateway, and how answers are written.

On standard output there is either what people read or exactly one JSON document. Progress and
failures go to standard error, so that a pipe carries the answer and nothing else.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from leasehold.called import PROGRAM
from leasehold.cli.client import Client, new_key
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.profiles import Profile, Profiles, home
from leasehold.cli.tokens import Tokens

GATEWAY_DEFAULT = "http://127.0.0.1:7400"
# Wide enough that no row of a table is broken in two where no terminal limits it.
_PIPE_WIDTH = 10_000


class Session:
    def __init__(self) -> None:
        self.output = "table"
        self.profile = os.environ.get("LEASEHOLD_PROFILE", "")
        self.gateway = os.environ.get("LEASEHOLD_GATEWAY", "")
        self.key = ""
        self.profiles = Profiles(home(os.environ))
        self._clients: list[Client] = []

    def close(self) -> None:
        for client in self._clients:
            client.close()

    # Who and where.

    @cached_property
    def client(self) -> Client:
        """A client that speaks for the chosen profile."""
        name, profile = self.identity()
        client = self.new_client(self.gateway or profile.gateway_url)
        client.authorise = self.tokens(client, name, profile).get
        return client

    def tokens(self, client: Client, name: str, profile: Profile) -> Tokens:
        return Tokens(client, self.profiles, name, profile)

    def new_client(self, gateway_url: str) -> Client:
        """A client that speaks for nobody yet."""
        client = Client(gateway_url)
        self._clients.append(client)
        return client

    def identity(self) -> tuple[str, Profile]:
        """The profile and its name. The environment counts unless a profile was asked for."""
        if not self.profile and (profile := self.environment_profile()):
            return "", profile
        name = self.profile or self.profiles.current()
        if not name:
            raise Failure(
                "you are not logged in",
                Exit.UNAUTHENTICATED,
                code="NOT_LOGGED_IN",
                hint=f"{PROGRAM} signup NAME makes a tenant; {PROGRAM} login uses a credential",
            )
        return name, self.profiles.get(name)

    def environment_profile(self) -> Profile | None:
        client_id = os.environ.get("LEASEHOLD_CLIENT_ID", "")
        secret = os.environ.get("LEASEHOLD_CLIENT_SECRET", "")
        if not client_id or not secret:
            return None
        return Profile(self.gateway_url(), client_id, secret)

    def gateway_url(self) -> str:
        """Without a profile: what was asked for, or the platform on this machine."""
        return self.gateway or str(read_state("platform.json").get("gateway_url", GATEWAY_DEFAULT))

    def new_key(self) -> str:
        """The idempotency key to use: the one given, or one that was never used."""
        return self.key or new_key()

    # Answers.

    @property
    def as_json(self) -> bool:
        return self.output == "json"

    def show(self, document: Any, *drawn: RenderableType) -> None:
        """The answer: ``document`` for programs, ``drawn`` for people."""
        if self.as_json:
            print(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            draw(sys.stdout, *drawn)

    def tell(self, *drawn: RenderableType) -> None:
        """Something on the way to the answer."""
        draw(sys.stderr, *drawn)


def draw(file: TextIO, *drawn: RenderableType) -> None:
    pen = console(file)
    if pen.is_terminal:
        for item in drawn:
            pen.print(item, soft_wrap=isinstance(item, str | Text), markup=False, crop=False)
        return
    with pen.capture() as captured:
        for item in drawn:
            pen.print(item, markup=False)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=file)


def console(file: TextIO) -> Console:
    pen = Console(file=file, highlight=False)
    return pen if pen.is_terminal else Console(file=file, highlight=False, width=_PIPE_WIDTH)


def state_folder() -> Path:
    return Path(os.environ.get("LEASEHOLD_STATE", "state"))


def read_state(name: str, missing: Callable[[Path], Failure] | None = None) -> dict[str, Any]:
    """A file of the local platform's state; {} if there is none and nothing insists on it."""
    path = state_folder() / name
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if missing is None:
            return {}
        raise missing(path) from None
    except PermissionError:
        raise Failure(
            f"{path} may not be read by this account",
            Exit.USAGE,
            code="STATE",
            hint="use its owner",
        ) from None
    except ValueError:
        raise Failure(
            f"{path} is damaged", Exit.USAGE, code="STATE", hint="start the platform again"
        ) from None
    return found if isinstance(found, dict) else {}


def no_platform(path: Path) -> Failure:
    return Failure(
        f"there is no platform here: {path} does not exist",
        Exit.UNAVAILABLE,
        code="NO_PLATFORM",
        hint=f"start one with `{PROGRAM} up`, or name its state folder with LEASEHOLD_STATE",
    )
