"""`leasehold up`: start the platform, say where everything is, run until asked to stop."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType

from rich.console import Console
from rich.table import Table

from chassis.settings import SettingsError, load
from leasehold.called import PROGRAM
from leasehold.launcher.database import without_password
from leasehold.launcher.nodes import PYTHON_READER
from leasehold.launcher.platform import Platform
from leasehold.launcher.settings import PlatformSettings
from leasehold.launcher.state import CannotStart

EXIT_FAILED = 1
EXIT_SETTINGS = 2


def run(environ: Mapping[str, str] = os.environ, console: Console | None = None) -> int:
    """Start, stay, stop; answers the exit code."""
    console = console or Console(highlight=False)
    try:
        platform = Platform(load(PlatformSettings, environ))
    except SettingsError as error:
        for line in error.errors:
            console.print(line, style="red", markup=False, soft_wrap=True)
        return EXIT_SETTINGS
    console.print(f"Starting Leasehold in {platform.state.path}", soft_wrap=True)
    asked = Asked()
    began = time.monotonic()
    try:
        platform.start(lambda name, news: _tell(console, began, name, news))
    except CannotStart as reason:
        console.print(
            f"Leasehold cannot start: {reason}", style="red", markup=False, soft_wrap=True
        )
        return EXIT_FAILED
    except Interrupted:
        console.print("Stopped before everything was up")
        return 0
    asked.wait(lambda: _welcome(console, platform, time.monotonic() - began))
    console.print("\nStopping; all data stays in the state folder")
    began = time.monotonic()
    platform.stop(lambda name, news: _tell(console, began, name, news))
    return 0


class Interrupted(BaseException):
    """Asked to stop while the platform was coming up."""


class Asked:
    """Ctrl-C or SIGTERM. It breaks off the start, ends the waiting, and cannot break the end."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._starting = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def wait(self, welcome: Callable[[], None]) -> None:
        self._starting = False
        welcome()
        self._event.wait()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        first = not self._event.is_set()
        self._event.set()
        if first and self._starting:
            raise Interrupted


def _tell(console: Console, began: float, name: str, news: str) -> None:
    console.print(f"[dim]{time.monotonic() - began:5.1f} s[/]  [green]✓[/] {name} {news}")


# From an empty platform to an invoice; README.md tells the same story.
NEXT = (
    "login --operator",
    "signup acme",
    "topup acme 100 --profile operator",
    "apply -f examples/train.yaml --wait",
    "invoice issue",
)


def remarks(platform: Platform) -> list[str]:
    """What is less than it could be, one sentence each."""
    said = []
    if platform.gpu_reader == PYTHON_READER:
        said.append("No C compiler: the simulated GPUs come from a plain Python reader.")
    if platform.shares_role:
        said.append(
            "The role in LEASEHOLD_POSTGRES_URL may not create roles, so all services share it and "
            "each can read and change what the others store; grant it CREATEROLE to separate them."
        )
    return said


def _welcome(console: Console, platform: Platform, seconds: float) -> None:
    found = platform.addresses()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, place in (
        ("REST API", found["gateway_url"]),
        ("OpenAPI", f"{found['gateway_url']}/openapi.json"),
        *((f"{name} (gRPC)", place) for name, place in found["peers"].items()),
        ("simulated provider", found["provider_url"]),
        ("PostgreSQL", without_password(found["postgres_url"])),
        ("NATS", without_password(found["nats_url"])),
        *((f"{name} (metrics)", f"{url}/metrics") for name, url in found["metrics"].items()),
        ("logs", str(platform.state / "logs")),
        ("operator's credential", str(platform.state / "operator.json")),
    ):
        table.add_row(name, place)
    console.print(f"\n[bold]Leasehold is up[/] ({seconds:.1f} s)\n")
    console.print(table, soft_wrap=True)
    for remark in remarks(platform):
        console.print(f"\n{remark}", soft_wrap=True)
    console.print("\nNext, in another terminal:\n")
    for line in NEXT:
        console.print(f"  [bold]{PROGRAM} {line}[/]")
    console.print()
    console.print("Ctrl-C stops everything; the next start continues with the same data.")
