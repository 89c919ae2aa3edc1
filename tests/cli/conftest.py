"""A gateway that stands in, and a home of one's own with a profile for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.cli import client, run
from leasehold.cli.profiles import Profile, Profiles
from tests.cli import standin

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without profiles, in a folder without a platform."""
    folder = tmp_path / "home"
    monkeypatch.setenv("LEASEHOLD_HOME", str(folder))
    monkeypatch.setenv("LEASEHOLD_STATE", str(tmp_path / "state"))
    for name in ("CLIENT_ID", "CLIENT_SECRET", "GATEWAY", "PROFILE", "TRACEBACK"):
        monkeypatch.delenv(f"LEASEHOLD_{name}", raising=False)
    monkeypatch.setattr(client, "PAUSES", (0.01, 0.02, 0.04))
    monkeypatch.setattr(client, "RETRY_AFTER_SECONDS_MAX", 0.05)
    return folder


@pytest.fixture(scope="session")
def listening() -> Iterator[standin.StandIn]:
    with standin.running() as stand_in:
        yield stand_in


@pytest.fixture
def gateway(listening: standin.StandIn) -> standin.StandIn:
    listening.forget()
    return listening


@pytest.fixture
def logged_in(home: Path, gateway: standin.StandIn) -> Profiles:
    profiles = Profiles(home)
    profile = Profile(gateway.url, standin.CLIENT_ID, standin.CLIENT_SECRET, standin.TENANT_ID)
    profiles.save("acme", profile)
    return profiles


@pytest.fixture
def leasehold(home: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line; answers exit code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(arguments)
        out, err = capfd.readouterr()
        return code, out, err

    return call
