"""A job and its supervisor, as real processes: durations, limits, stops, and sudden deaths."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chassis.clock import SECOND
from node_agent.jobs import Jobs
from node_agent.policy import Desired, JobState, Run
from node_agent.uptime import uptime_us
from tests.waiting import wait_for

FAR = uptime_us() + 3600 * SECOND
# Clocks agree to this much when the machine is busy.
SLACK_US = 2 * SECOND
NOW = "python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)'"


def test_run_time_is_measured_from_spawn_to_exit(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    started_us = start(jobs, f"{NOW}; sleep 0.3; {NOW}; exit 3")
    run = ended(jobs)
    first, last = map(int, jobs.output("lse_1", 0, 1000).split())
    assert (run.state, run.exit_code, run.cause, run.error) == (JobState.EXITED, 3, "", "")
    assert last - first <= run.run_us <= last - started_us + SLACK_US
    assert run.proven_us == run.run_us


def test_a_limit_ends_the_program(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "exec sleep 60", seconds_max=1)
    run = ended(jobs)
    assert (run.cause, run.exit_code) == ("LIMIT", 128 + signal.SIGTERM)
    assert SECOND <= run.run_us <= SECOND + SLACK_US


def test_a_lease_does_not_outlive_its_deadline_though_no_agent_is_left(tmp_path: Path) -> None:
    deadline_us = uptime_us() + 2 * SECOND
    # An agent of its own that starts the job and is killed: what remains must be enough.
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(tmp_path), str(deadline_us)])
    started = tmp_path / "lse_1" / "started.json"
    wait_for(started.exists, what="the job starts")
    agent.kill()
    agent.wait()
    jobs = jobs_in(tmp_path)
    (run,) = jobs.runs()
    assert run.state is JobState.RUNNING
    run = ended(jobs)
    # The program ignores the notice that it is given, so it is killed at the deadline.
    assert (run.cause, run.exit_code) == ("EXPIRED", 128 + signal.SIGKILL)
    assert uptime_us() >= deadline_us
    assert run.run_us <= 2 * SECOND + SLACK_US


def test_a_deadline_can_be_moved_on(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "sleep 2", deadline_us=uptime_us() + 2 * SECOND)
    jobs.change("lse_1", Desired(deadline_us=FAR))
    run = ended(jobs)
    assert (run.cause, run.exit_code) == ("", 0)


def test_a_stop_gives_the_program_its_grace(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "trap 'sleep 0.3; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    wait_for(lambda: jobs.output("lse_1", 0, 10), what="the program is ready")
    jobs.change("lse_1", Desired(FAR, stop=True, stop_cause="BALANCE", grace_us=20 * SECOND))
    run = ended(jobs)
    assert (run.cause, run.exit_code) == ("STOPPED", 5)


def test_a_program_that_ignores_the_stop_is_killed_after_its_grace(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    wait_for(lambda: jobs.output("lse_1", 0, 10), what="the program is ready")
    jobs.change("lse_1", Desired(FAR, stop=True, grace_us=SECOND // 5))
    run = ended(jobs)
    assert (run.cause, run.exit_code) == ("STOPPED", 128 + signal.SIGKILL)


def test_a_program_that_does_not_exist_is_a_failed_start(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, command=["no-such-program"])
    run = ended(jobs)
    assert run.run_us == 0
    assert "No such file" in run.error


def test_nothing_of_a_job_is_left_running(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "setsid sleep 61 & sleep 62 & sleep 0.2; exit 0")
    ended(jobs)
    assert not marked_processes(tmp_path)


def test_the_program_sees_only_its_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_JOIN_TOKEN", "secret")
    jobs = jobs_in(tmp_path)
    start(jobs, "env; pwd")
    ended(jobs)
    output = jobs.output("lse_1", 0, 10_000).decode()
    assert "JOIN_TOKEN" not in output
    assert "LEASEHOLD_LEASE_ID=lse_1" in output
    assert output.splitlines()[-1] == str(tmp_path / "lse_1" / "work")


def test_a_constraint_reaches_the_workload_and_its_priority(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    control = tmp_path / "lse_1" / "control.json"
    start(
        jobs,
        f"until grep -q throttle {control}; do sleep 0.05; done; cut -d' ' -f19 /proc/self/stat",
    )
    wait_for(control.exists, what="the control file is there from the beginning")
    jobs.change("lse_1", Desired(FAR, constraint="throttle"))
    ended(jobs)
    assert jobs.output("lse_1", 0, 10) == b"19\n"


def test_output_is_bounded(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "head -c 70000000 /dev/zero; exit 0")
    assert ended(jobs).exit_code == 0
    log = tmp_path / "lse_1" / "output.log"
    assert log.stat().st_size < 64 * 1024 * 1024 + 70_000
    assert log.read_bytes().endswith(b"the rest is not kept\n")


def test_a_program_without_output_costs_nothing(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "exec >&- 2>&-; sleep 1.5")
    wait_for(lambda: jobs.runs()[0].begun, what="the program begins")
    (supervisor,) = supervisors(tmp_path)
    wait_for(lambda: jobs.runs()[0].proven_us > SECOND, what="a second passes")
    assert sum(supervisor.cpu_times()[:2]) < 0.5
    ended(jobs)


def test_a_supervisor_that_is_killed_takes_its_program_with_it(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "sleep 61 & setsid sleep 62 & sleep 63")
    wait_for(lambda: jobs.runs()[0].proven_us > SECOND, what="a heartbeat after a second")
    (supervisor,) = supervisors(tmp_path)
    supervisor.kill()
    run = ended(jobs)
    assert (run.cause, run.exit_code) == ("NODE_LOST", -1)
    assert SECOND < run.run_us <= 10 * SECOND
    wait_for(lambda: not marked_processes(tmp_path), what="nothing is left of the program")
    # The verdict stands, also for another agent.
    assert jobs_in(tmp_path).runs() == [run]


def test_a_lost_run_is_never_shorter_than_what_was_metered(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, lambda lease_id: 77 * SECOND)
    start(jobs, "sleep 63")
    wait_for(lambda: jobs.runs()[0].begun, what="the program begins")
    (supervisor,) = supervisors(tmp_path)
    supervisor.kill()
    assert ended(jobs).run_us == 77 * SECOND


def test_a_job_that_began_is_never_begun_again(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    start(jobs, "echo once; sleep 0.5")
    wait_for(lambda: jobs.runs()[0].begun, what="the program begins")
    jobs_in(tmp_path).start("lse_1", Desired(FAR))
    ended(jobs)
    jobs.start("lse_1", Desired(FAR))
    wait_for(lambda: not supervisors(tmp_path), what="the superfluous supervisors leave")
    assert jobs.output("lse_1", 0, 100) == b"once\n"


def test_a_prepared_job_can_be_given_up(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    jobs.prepare("lse_1", spec(["true"], 0), Desired(FAR))
    assert [run.state for run in jobs.runs()] == [JobState.PREPARED]
    jobs.abandon("lse_1")
    (run,) = jobs.runs()
    assert (run.state, run.cause, run.run_us) == (JobState.EXITED, "STOPPED", 0)
    jobs.forget("lse_1")
    assert jobs.runs() == []


def test_a_half_removed_folder_is_removed_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / ".lse_1" / "work").mkdir(parents=True)
    assert jobs_in(tmp_path).runs() == []
    assert list(tmp_path.iterdir()) == []


AGENT = """
import sys, signal, pathlib
from node_agent.jobs import Jobs
from node_agent.policy import Desired
jobs = Jobs(pathlib.Path(sys.argv[1]), lambda lease_id: 0)
spec = {"lease_id": "lse_1", "fencing_token": 1, "slots": [0], "seconds_max": 0,
        "command": ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"],
        "environment": {"PATH": "/usr/bin:/bin", "LEASEHOLD_LEASE_ID": "lse_1"}}
jobs.prepare("lse_1", spec, Desired(int(sys.argv[2])))
jobs.start("lse_1", Desired(int(sys.argv[2])))
signal.pause()
"""


def jobs_in(folder: Path) -> Jobs:
    return Jobs(folder, lambda lease_id: 0)


def spec(command: list[str], seconds_max: int) -> dict[str, object]:
    environment = {"PATH": os.environ["PATH"], "LEASEHOLD_LEASE_ID": "lse_1"}
    return {
        "lease_id": "lse_1",
        "fencing_token": 1,
        "slots": [0],
        "command": command,
        "environment": environment,
        "seconds_max": seconds_max,
    }


def start(
    jobs: Jobs,
    script: str = "",
    *,
    command: list[str] | None = None,
    seconds_max: int = 0,
    deadline_us: int = FAR,
) -> int:
    """Starts the lease lse_1; returns the time since boot just before."""
    desired = Desired(deadline_us)
    jobs.prepare("lse_1", spec(command or ["sh", "-c", script], seconds_max), desired)
    before = uptime_us()
    jobs.start("lse_1", desired)
    return before


def ended(jobs: Jobs) -> Run:
    """The run of lse_1 once it has ended."""
    wait_for(lambda: jobs.runs()[0].state is JobState.EXITED, seconds=15, what="the job ends")
    return jobs.runs()[0]


def supervisors(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "node_agent.supervisor" in command and command[-1] == str(folder / "lse_1"):
            found.append(process)
    return found


def marked_processes(folder: Path) -> list[int]:
    """Processes that carry the job's mark in their environment."""
    found = []
    for process in psutil.process_iter(["environ"]):
        control = (process.info["environ"] or {}).get("LEASEHOLD_CONTROL_FILE")
        if control == str(folder / "lse_1" / "control.json"):
            found.append(process.pid)
    return found
