"""Whatever dies comes back, unless it is held down; what cannot start says why."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from leasehold.launcher import child, leftovers
from leasehold.launcher.child import Child, shorten
from leasehold.launcher.crew import Crew
from leasehold.launcher.embedded import Nats, Postgres
from leasehold.launcher.ports import Ports, free_base
from leasehold.launcher.state import CannotStart, StateFolder
from tests.waiting import wait_for


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.stop(crew.names)


def test_a_killed_process_comes_back(crew: Crew, tmp_path: Path) -> None:
    crew.start({"billing": stub(tmp_path)})
    crew.wait_ready(["billing"])
    before = crew.pids()["billing"]
    crew.kill("billing")
    wait_for(lambda: crew.pids().get("billing") not in (None, before), what="a new process")
    crew.wait_ready(["billing"])


def test_a_process_that_dies_by_itself_comes_back(crew: Crew, tmp_path: Path) -> None:
    crew.start({"billing": stub(tmp_path)})
    crew.wait_ready(["billing"])
    os.kill(crew.pids()["billing"], signal.SIGKILL)
    wait_for(lambda: crew.restarts("billing") == 1, what="a restart")
    crew.wait_ready(["billing"])


def test_a_process_that_is_held_down_stays_down_until_it_is_released(
    crew: Crew, tmp_path: Path
) -> None:
    crew.start({"billing": stub(tmp_path), "other": stub(tmp_path)})
    crew.wait_ready(crew.names)
    crew.hold_down("billing")
    # The other one is restarted meanwhile: the time in which the held one would have been, too.
    crew.kill("other")
    wait_for(lambda: crew.restarts("other") == 1, what="the other's restart")
    crew.wait_ready(["other"])
    assert "billing" not in crew.pids()
    crew.release("billing")
    crew.wait_ready(["billing"])


def test_servers_come_back_with_their_data(crew: Crew, home: Path) -> None:
    ports = Ports(free_base())
    nats = Nats(home / "nats", ports.nats)
    crew.start({"postgres": Postgres(home / "postgres", ports.postgres, "owner"), "nats": nats})
    for name in crew.names:
        crew.kill(name)
    wait_for(lambda: all(map(crew.restarts, crew.names)), seconds=30, what="both to come back")
    crew.wait_ready(crew.names)


def test_a_process_that_refuses_its_settings_ends_the_waiting(crew: Crew, tmp_path: Path) -> None:
    crew.start({"billing": stub(tmp_path, STUB_EXIT="2")})
    with pytest.raises(CannotStart, match=r"billing does not start: LEASEHOLD_COLOUR is not set"):
        crew.wait_ready(["billing"])


def test_a_process_that_keeps_dying_ends_the_waiting(crew: Crew, tmp_path: Path) -> None:
    crew.start({"billing": stub(tmp_path, STUB_EXIT="1")})
    with pytest.raises(CannotStart, match="billing does not start"):
        crew.wait_ready(["billing"])


def test_a_process_that_never_gets_ready_is_named(crew: Crew, tmp_path: Path) -> None:
    crew.start({"billing": stub(tmp_path), "deaf": stub(tmp_path, ready_port=1)})
    with pytest.raises(CannotStart, match="^deaf not ready within 2 seconds"):
        crew.wait_ready(crew.names, 2)


def test_a_process_that_ignores_the_request_to_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STOP_SECONDS", 0.2)
    crew = Crew()
    crew.start({"deaf": stub(tmp_path, STUB_DEAF="1")})
    crew.wait_ready(["deaf"])
    pid = crew.pids()["deaf"]
    crew.stop(["deaf"])
    assert not psutil.pid_exists(pid)


def test_what_a_killed_launcher_left_is_ended_and_nothing_else(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    state.open()
    ours, stranger = (sleeper({leftovers.MARK: mark}) for mark in (str(state.path), "elsewhere"))
    state.write("platform.json", {"pids": {"billing": ours.pid, "placement": stranger.pid}})
    leftovers.end_processes(state)
    assert ours.wait() == -signal.SIGTERM
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_long_log_is_cut_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "LOG_BYTES_MAX", 10)
    log = tmp_path / "billing.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a long line\n")
        shorten(log)
        writer.write(b"next\n")
    assert (tmp_path / "billing.log.1").read_bytes() == b"a long line\n"
    assert log.read_bytes() == b"next\n"


def stub(folder: Path, ready_port: int | None = None, **settings: str) -> Child:
    port = Ports(free_base()).gateway_http
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent),
        "LEASEHOLD_METRICS_PORT": str(port),
        **{f"LEASEHOLD_{name}": value for name, value in settings.items()},
    }
    log = folder / f"{port}.log"
    return Child(
        "billing", "stub", environment, log, ready=ready_port or f"http://127.0.0.1:{port}"
    )


def sleeper(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    return subprocess.Popen(command, env={**os.environ, **environment})
