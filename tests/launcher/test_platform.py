"""The platform as a whole, with real servers and a stand-in for each service.

The services' own behaviour in it is the matter of tests/story.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from chassis.settings import Secret
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import SERVICES, Ports, free_base
from leasehold.launcher.server import HOST
from leasehold.launcher.settings import PlatformSettings
from leasehold.launcher.state import CannotStart
from leasehold.launcher.up import remarks
from tests.waiting import wait_for

UP = "import sys; from leasehold.launcher.up import run; sys.exit(run())"


@pytest.fixture(scope="module")
def platform(shared_home: Path, stubs: None) -> Iterator[Platform]:
    platform = Platform(settings(shared_home), {"billing": {"TICK_SECONDS": "1"}})
    platform.start()
    yield platform
    platform.stop()


def test_everything_runs_and_each_process_knows_only_its_own_secrets(platform: Platform) -> None:
    assert set(platform.crew.names) == {"postgres", "nats", *SERVICES, "provider"}
    billing, placement = (process(platform, name).environ() for name in ("billing", "placement"))
    assert billing["LEASEHOLD_TICK_SECONDS"] == "1"
    assert "leasehold_billing:" in billing["LEASEHOLD_POSTGRES_URL"]
    assert billing["LEASEHOLD_NATS_URL"].startswith("nats://billing:")
    assert "LEASEHOLD_NODE_CA_DIR" not in billing
    assert "LEASEHOLD_NODE_CA_DIR" in placement
    assert "LEASEHOLD_POSTGRES_URL" not in process(platform, "provider").environ()
    for name in ("platform.json", "operator.json", "secrets.json"):
        assert (platform.state / name).stat().st_mode & 0o077 == 0, name


@pytest.mark.parametrize("victim", ["postgres", "nats", "billing", "provider"])
def test_any_process_may_be_killed(platform: Platform, victim: str) -> None:
    before, restarts = platform.crew.pids()[victim], platform.crew.restarts(victim)
    platform.kill(victim)
    wait_for(lambda: platform.crew.restarts(victim) > restarts, seconds=30, what=f"{victim} again")
    platform.wait_ready(30)
    after = platform.crew.pids()[victim]
    assert after != before
    noted = platform.state / "platform.json"
    wait_for(
        lambda: json.loads(noted.read_text())["pids"][victim] == after,
        what="platform.json to say so",
    )


def test_a_second_start_continues_with_the_same_data(home: Path, stubs: None) -> None:
    for known in ([], [("kept",)]):
        platform = Platform(settings(home))
        began = time.monotonic()
        platform.start()
        assert time.monotonic() - began < 15
        with psycopg.connect(platform.addresses()["postgres_url"], autocommit=True) as connection:
            connection.execute("create table if not exists notes (note text)")
            assert connection.execute("select note from notes").fetchall() == known
            connection.execute("insert into notes values ('kept')")
        platform.stop()


def test_after_a_stop_nothing_runs_and_nothing_listens(home: Path, stubs: None) -> None:
    platform = Platform(settings(home))
    platform.start()
    pids = platform.crew.pids().values()
    platform.stop()
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    again = Platform(settings(home, platform.ports.base))
    again.start()
    again.stop()


def test_a_failing_service_stops_the_start_and_leaves_nothing(home: Path, stubs: None) -> None:
    platform = Platform(settings(home), {"billing": {"STUB_EXIT": "2"}})
    with pytest.raises(CannotStart, match="billing does not start: LEASEHOLD_COLOUR is not set"):
        platform.start()
    assert platform.crew.pids() == {}
    Platform(settings(home, platform.ports.base)).state.open()


def test_existing_servers_are_used_instead_of_own(platform: Platform, home: Path) -> None:
    theirs = Secret(platform.addresses()["postgres_url"])
    own = settings(home)
    guest = Platform(replace(own, postgres_url=theirs, nats_url=Secret("nats://other:1")))
    guest.start()
    assert set(guest.crew.names) == {*SERVICES, "provider"}
    assert process(guest, "billing").environ()["LEASEHOLD_NATS_URL"] == "nats://other:1"
    assert remarks(guest) == remarks(platform)
    guest.stop()


def test_a_role_that_all_services_have_to_share_is_remarked_on(
    platform: Platform, home: Path
) -> None:
    url = platform.addresses()["postgres_url"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create role lodger login password 'lodger'")
        connection.execute("create database lodging owner lodger")
    place = url.rpartition("@")[2].partition("/")[0]
    theirs = Secret(f"postgresql://lodger:lodger@{place}/lodging")
    guest = Platform(replace(settings(home), postgres_url=theirs, nats_url=Secret("nats://x:1")))
    guest.start()
    guest.stop()
    (remark,) = set(remarks(guest)) - set(remarks(platform))
    assert "all services share it" in remark
    assert "CREATEROLE" in remark


# `leasehold up` as people meet it: one sentence, an exit code, no stack trace.


def test_up_tells_which_port_is_busy_who_wants_it_and_what_to_do(home: Path) -> None:
    base = free_base()
    with socket.create_server((HOST, Ports(base).grpc["placement"])):
        code, said = up(home, base)
    assert code == 1
    assert f"port {base + 3}, wanted for placement (gRPC), is in use" in said
    assert "LEASEHOLD_PORT_BASE" in said
    assert "Traceback" not in said


def test_up_tells_that_the_state_is_stale(home: Path) -> None:
    (home / "VERSION").write_text("0")
    code, said = up(home, free_base())
    assert (code, "`make wipe`" in said, "Traceback" in said) == (1, True, False)


def test_up_lists_every_wrong_setting(home: Path) -> None:
    code, said = up(home, 99, LEASEHOLD_NODES="many")
    assert code == 2
    assert "LEASEHOLD_PORT_BASE" in said
    assert "LEASEHOLD_NODES" in said


def test_a_second_up_on_the_same_folder_is_refused(platform: Platform) -> None:
    code, said = up(platform.state.path, free_base())
    assert (code, "already running" in said) == (1, True)


@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGTERM])
def test_up_runs_until_asked_and_leaves_nothing(
    home: Path, stubs: None, request_to_stop: signal.Signals
) -> None:
    with started_up(home) as launcher:
        pids = wait_until_up(launcher, home)
        launcher.send_signal(request_to_stop)
        said, _ = launcher.communicate(timeout=30)
    assert launcher.returncode == 0
    assert "Next, in another terminal" in said
    assert "Stopping" in said
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


def test_up_can_be_broken_off_while_it_starts(home: Path, stubs: None) -> None:
    with started_up(home, LEASEHOLD_STUB_SLOW="1") as launcher:
        services = home / "logs/billing.log"
        wait_for(lambda: alive(launcher) and services.exists(), seconds=30, what="the services")
        launcher.send_signal(signal.SIGINT)
        said, _ = launcher.communicate(timeout=30)
    assert (launcher.returncode, "Stopped before" in said) == (0, True)
    Platform(settings(home)).state.open()


def test_up_after_a_killed_up_ends_what_that_left(home: Path, stubs: None) -> None:
    base = free_base()
    with started_up(home, base) as launcher:
        pids = wait_until_up(launcher, home)
        launcher.kill()
    platform = Platform(settings(home, base))
    platform.start()
    assert not set(pids) & set(platform.crew.pids().values())
    platform.stop()


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules that stand in for the services of the same names."""
    folder = tmp_path_factory.mktemp("stubs")
    modules = dict.fromkeys(SERVICES, "__main__.py")
    for name, module in {**modules, "aggregator/providers": "simulated.py"}.items():
        package = folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        shutil.copy(Path(__file__).with_name("stub.py"), package / module)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(folder))
        yield


def settings(home: Path, base: int = 0) -> PlatformSettings:
    return PlatformSettings(state=home, port_base=base or free_base(), nodes=0)


def process(platform: Platform, name: str) -> psutil.Process:
    return psutil.Process(platform.crew.pids()[name])


def up(home: Path, base: int, **settings: str) -> tuple[int, str]:
    with started_up(home, base, **settings) as launcher:
        said, _ = launcher.communicate(timeout=60)
    return launcher.returncode, said


def started_up(home: Path, base: int = 0, **settings: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "LEASEHOLD_STATE": str(home),
        "LEASEHOLD_PORT_BASE": str(base or free_base()),
        "LEASEHOLD_NODES": "0",
        **settings,
    }
    return subprocess.Popen(
        [sys.executable, "-c", UP],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until_up(launcher: subprocess.Popen[str], home: Path) -> list[int]:
    def noted() -> list[int]:
        assert alive(launcher)
        written = home / "platform.json"
        pids = json.loads(written.read_text())["pids"] if written.exists() else {}
        return list(pids.values()) if "billing" in pids else []

    return wait_for(noted, seconds=30, what="the platform to be up")


def alive(launcher: subprocess.Popen[str]) -> bool:
    assert launcher.poll() is None, launcher.communicate()[0]
    return True
