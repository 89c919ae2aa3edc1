"""The agent as a process against a control plane that comes, goes and forgets its answers."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from chassis.clock import SECOND
from leasehold.placement.v1 import node_service_pb2 as node_pb
from node_agent.simulated import STATE_VARIABLE
from tests.node_agent.control_plane import TOKEN, ControlPlane
from tests.waiting import wait_for

DAY_US = 86_400 * SECOND
RUNNING, EXITED = node_pb.RUN_STATE_RUNNING, node_pb.RUN_STATE_EXITED


def test_a_job_that_ends_while_the_control_plane_is_away_is_accounted_exactly(
    plane: ControlPlane, node: "Node"
) -> None:
    node.start()
    plane.assign(lease("lse_1", "echo first; sleep 3; echo last; exit 3"))
    memory = plane.memory
    wait_for(lambda: memory.slices, what="a first slice while it runs")
    plane.cut()
    wait_for(lambda: node.job_file("lse_1", "exited.json").exists(), what="the job ends alone")
    assert memory.exited("lse_1") is None
    plane.start()
    status = wait_for(lambda: memory.exited("lse_1"), what="its end is told")
    assert (status.state, status.exit_code, status.cause) == (EXITED, 3, "")
    assert 3 * SECOND <= status.run_us <= 6 * SECOND
    accounted(plane, "lse_1", status.run_us)
    wait_for(lambda: memory.logs.get("lse_1") == b"first\nlast\n", what="all of its output")
    memory.settled.add("lse_1")
    memory.assignments.clear()
    wait_for(lambda: not node.job_file("lse_1", "").exists(), what="the node forgets the lease")
    assert [join.token for join in memory.joins] == [TOKEN]
    assert memory.joins[0].simulated
    assert len(memory.joins[0].gpus) == 8
    wait_for(lambda: len(memory.samples) >= 16, what="telemetry of eight GPUs, twice")


def test_an_agent_that_is_killed_finds_its_job_again(plane: ControlPlane, node: "Node") -> None:
    node.start()
    plane.assign(lease("lse_1", "sleep 2.5"))
    wait_for(lambda: plane.memory.slices, what="a first slice")
    node.kill()
    wait_for(lambda: node.job_file("lse_1", "exited.json").exists(), what="the job ends alone")
    node.start(token="")
    status = wait_for(lambda: plane.memory.exited("lse_1"), what="its end is told")
    assert 2_500_000 <= status.run_us <= 5 * SECOND
    accounted(plane, "lse_1", status.run_us)
    assert len(plane.memory.joins) == 1


def test_lost_answers_change_nothing(plane: ControlPlane, node: "Node") -> None:
    node.start()
    plane.assign(lease("lse_1", "echo one; sleep 2; echo two"))
    wait_for(lambda: "lse_1" in plane.memory.statuses, what="the job runs")
    plane.memory.losing = True
    wait_for(lambda: plane.memory.exited("lse_1"), what="its end is told, and not answered")
    wait_for(lambda: plane.memory.slices, what="a slice is taken in, and not answered")
    node.kill()
    plane.memory.losing = False
    node.start()
    status = plane.memory.exited("lse_1")
    assert status is not None
    accounted(plane, "lse_1", status.run_us)
    wait_for(lambda: plane.memory.logs.get("lse_1") == b"one\ntwo\n", what="its output, once")


def test_slices_that_billing_does_not_know_yet_are_kept(plane: ControlPlane, node: "Node") -> None:
    plane.memory.retrying = True
    node.start()
    plane.assign(lease("lse_1", "sleep 1.2"))
    status = wait_for(lambda: plane.memory.exited("lse_1"), what="its end is told")
    assert plane.memory.slices == {}
    plane.memory.retrying = False
    accounted(plane, "lse_1", status.run_us)


def test_a_lease_is_constrained_and_then_stopped(plane: ControlPlane, node: "Node") -> None:
    node.start()
    script = "until grep -q throttle $LEASEHOLD_CONTROL_FILE; do sleep 0.05; done; echo throttled;"
    plane.assign(lease("lse_1", f"{script} trap 'exit 9' TERM; while :; do sleep 0.05; done"))
    wait_for(lambda: "lse_1" in plane.memory.statuses, what="the job runs")
    constrained = lease("lse_1", "")
    constrained.constraint = "throttle"
    plane.assign(constrained)
    wait_for(lambda: plane.memory.logs.get("lse_1"), what="the constraint reaches the workload")
    constrained.run, constrained.grace_us = False, 10 * SECOND
    plane.assign(constrained)
    status = wait_for(lambda: plane.memory.exited("lse_1"), what="it stops")
    assert (status.state, status.cause, status.exit_code) == (EXITED, "STOPPED", 9)
    accounted(plane, "lse_1", status.run_us)


def test_a_lease_that_is_no_longer_assigned_is_stopped(plane: ControlPlane, node: "Node") -> None:
    node.start()
    plane.assign(lease("lse_1", "sleep 60"))
    wait_for(lambda: "lse_1" in plane.memory.statuses, what="the job runs")
    plane.memory.assignments.clear()
    plane.memory.revision += 1
    status = wait_for(lambda: plane.memory.exited("lse_1"), what="it stops")
    assert status.cause == "STOPPED"


def test_what_cannot_be_run_is_refused_with_a_reason(plane: ControlPlane, node: "Node") -> None:
    node.start()
    plane.assign(lease("lse_2", "true", token=2))
    wait_for(lambda: plane.memory.exited("lse_2"), what="a lease with token 2 runs and ends")
    plane.assign(lease("lse_1", "true", token=1))
    plane.assign(lease("lse_3", "true", token=3, slots=(8,)))
    unreadable = lease("lse_4", "true", token=4, slots=(2,))
    unreadable.manifest = '{"spec": {"command": "rm"}}'
    plane.assign(unreadable)
    plane.assign(lease("../../lse_5", "true", token=5, slots=(3,)))
    plane.assign(lease("lse_6", command=["no-such-program"], token=6, slots=(4,)))
    expected = {
        "lse_1": "FENCED: ",
        "lse_3": "NO_SUCH_GPU: ",
        "lse_4": "MANIFEST: ",
        "../../lse_5": "MANIFEST: the lease id",
        "lse_6": "[Errno 2]",
    }
    statuses = plane.memory.statuses
    wait_for(lambda: statuses.keys() >= expected.keys(), what="an answer to each")
    for lease_id, reason in expected.items():
        assert statuses[lease_id].state == node_pb.RUN_STATE_START_FAILED
        assert statuses[lease_id].error.startswith(reason)
    assert {lease_id for lease_id, _ in plane.memory.slices} <= {"lse_2"}


def test_the_wall_clock_is_reported_and_never_used(plane: ControlPlane, node: "Node") -> None:
    node.start(clock=True)
    plane.assign(lease("lse_1", "sleep 3"))
    wait_for(lambda: "lse_1" in plane.memory.statuses, what="the job runs")
    true_clock = plane.memory.syncs[-1].wall_at
    node.set_clock(DAY_US)
    wait_for(lambda: plane.memory.syncs[-1].wall_at > true_clock + DAY_US, what="a jump ahead")
    node.set_clock(-DAY_US)
    wait_for(lambda: plane.memory.syncs[-1].wall_at < true_clock, what="a jump back")
    status = wait_for(lambda: plane.memory.exited("lse_1"), what="its end is told")
    assert 3 * SECOND <= status.run_us <= 6 * SECOND
    accounted(plane, "lse_1", status.run_us)


def test_an_interrupted_join_is_repeated_with_the_same_request(
    plane: ControlPlane, node: "Node"
) -> None:
    plane.memory.losing = True
    node.start(wait=False)
    wait_for(lambda: plane.memory.joins, what="a join whose answer is lost")
    node.kill()
    plane.memory.losing = False
    node.start()
    assert len(plane.memory.joins) > 1
    assert all(join == plane.memory.joins[0] for join in plane.memory.joins)


def test_a_used_token_is_one_clear_sentence(plane: ControlPlane, node: "Node") -> None:
    node.start(token="used-before", wait=False)
    assert node.exit_code() == 1
    assert "the token is not valid" in node.log()
    assert "used-before" not in node.log()


def test_certificates_are_renewed_while_the_agent_works(plane: ControlPlane, node: "Node") -> None:
    plane.memory.certificate_seconds = 30
    node.start()
    wait_for(lambda: plane.memory.renewals >= 2, what="two renewals")
    told = len(plane.memory.syncs)
    wait_for(lambda: len(plane.memory.syncs) > told + 1, what="calls with the new certificate")


def test_two_agents_cannot_share_a_folder(plane: ControlPlane, node: "Node") -> None:
    node.start()
    second = Node(node.folder, node.environment)
    second.start(wait=False)
    assert second.exit_code() == 1
    assert "another agent works in" in second.log()


def test_settings_errors_are_listed_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path, {"LEASEHOLD_PEERS": "placement=127.0.0.1:1", "LEASEHOLD_NVML": "python"})
    node.start(token="", wait=False)
    assert node.exit_code() == 2
    for name in ("PEERS names no billing", "JOIN_TOKEN", "PLACEMENT_JOIN", "TRUST_BUNDLE"):
        assert name in node.log()


@pytest.mark.parametrize("stop_jobs", [False, True])
def test_stopping_the_agent_leaves_the_jobs_unless_asked_otherwise(
    stop_jobs: bool, plane: ControlPlane, node: "Node"
) -> None:
    node.environment["LEASEHOLD_STOP_JOBS"] = str(stop_jobs).lower()
    node.start()
    plane.assign(lease("lse_1", "sleep 60"))
    wait_for(lambda: "lse_1" in plane.memory.statuses, what="the job runs")
    node.terminate()
    assert node.exit_code() == 0
    assert node.job_file("lse_1", "exited.json").exists() is stop_jobs
    assert bool(job_processes(node)) is not stop_jobs


def test_a_node_says_how_it_is(plane: ControlPlane, node: "Node") -> None:
    node.start()
    assert node.get("/healthz")[0] == 200
    assert "node_agent_simulated 1.0" in node.get("/metrics")[1]
    plane.cut()
    wait_for(lambda: node.get("/readyz")[0] == 503, what="being cut off shows")
    assert "cut off from placement" in node.get("/readyz")[1]
    plane.start()
    wait_for(lambda: node.get("/readyz")[0] == 200, what="being back shows")


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path / "plane")
    plane.start()
    yield plane
    plane.close()


@pytest.fixture
def node(tmp_path: Path, gpu_state: Path, nvml_library: Path, plane: ControlPlane) -> Iterator[Any]:
    environment = {
        "LEASEHOLD_PEERS": plane.peers,
        "LEASEHOLD_PLACEMENT_JOIN": f"127.0.0.1:{plane.ports['join']}",
        "LEASEHOLD_TRUST_BUNDLE": str(plane.trust),
        "LEASEHOLD_NVML": str(nvml_library),
        "LEASEHOLD_SLICE_SECONDS": "1",
        STATE_VARIABLE: str(gpu_state),
    }
    node = Node(tmp_path / "node", environment)
    yield node
    node.clean_up()


class Node:
    """A node agent in its folder, started as an operator would."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self._log = folder.with_suffix(f".{id(self)}.log")
        self._clock = folder.with_suffix(".clock")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, token: str = TOKEN, clock: bool = False, wait: bool = True) -> None:
        variables = {"LEASEHOLD_STATE_DIR": str(self.folder), "LEASEHOLD_METRICS_PORT": "0"}
        variables |= {"LEASEHOLD_JOIN_TOKEN": token} if token else {}
        self.set_clock(0)
        wrapper = ["-c", CLOCK, str(self._clock)] if clock else ["-m", "node_agent"]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *wrapper],
                env={"PATH": os.environ["PATH"], **self.environment, **variables},
                stderr=log,
            )
        if wait:
            wait_for(self._is_ready, seconds=20, what=f"the agent is ready: {self._log}")

    def set_clock(self, offset_us: int) -> None:
        new = self._clock.with_suffix(".new")
        new.write_text(str(offset_us))
        new.replace(self._clock)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def exit_code(self) -> int:
        assert self._process is not None
        return self._process.wait(timeout=20)

    def log(self) -> str:
        return self._log.read_text()

    def job_file(self, lease_id: str, name: str) -> Path:
        return self.folder / "jobs" / lease_id / name

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an answer of the metrics listener."""
        assert self._process is not None
        (port,) = {
            each.laddr.port
            for each in psutil.Process(self._process.pid).net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        }
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def clean_up(self) -> None:
        if self._process is not None:
            self.kill()
        for process in job_processes(self):
            process.kill()
        wait_for(lambda: not job_processes(self), what="no job is left of the test")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        return "the node is up" in self.log() and self.get("/readyz")[0] == 200


# The agent with a wall clock that is as far off as a file says.
CLOCK = """
import pathlib, runpy, sys, time
true_ns = time.time_ns
offset = pathlib.Path(sys.argv[1])
time.time_ns = lambda: true_ns() + int(offset.read_text()) * 1000
runpy.run_module("node_agent", run_name="__main__")
"""


def lease(
    lease_id: str,
    script: str = "",
    *,
    command: list[str] | None = None,
    token: int = 1,
    slots: tuple[int, ...] = (0, 1),
) -> node_pb.Assignment:
    spec = {
        "command": command or ["sh", "-c", script],
        "environment": {},
        "gpus": [],
        "restart": "Never",
        "secondsMax": 0,
    }
    manifest = {"apiVersion": "leasehold.local/v1", "kind": "TrainingJob", "spec": spec}
    return node_pb.Assignment(
        lease_id=lease_id,
        tenant_id="ten_1",
        fencing_token=token,
        slots=slots,
        manifest=json.dumps(manifest),
        run=True,
        remaining_us=600 * SECOND,
    )


def accounted(plane: ControlPlane, lease_id: str, run_us: int) -> None:
    """The slices of the lease touch, never contradict each other, and add up to ``run_us``."""

    def until() -> int:
        return max((until for _, until in plane.memory.intervals(lease_id)), default=0)

    wait_for(lambda: until() >= run_us, what=f"all {run_us} microseconds are accounted")
    intervals = plane.memory.intervals(lease_id)
    assert [start for start, _ in intervals] == [0, *(end for _, end in intervals[:-1])]
    assert sum(end - start for start, end in intervals) == run_us
    assert plane.memory.contradictions == []


def job_processes(node: Node) -> list[psutil.Process]:
    """The supervisors of a node and everything that they started."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        control = (process.info["environ"] or {}).get("LEASEHOLD_CONTROL_FILE", "")
        last = (process.info["cmdline"] or [""])[-1]
        if any(str(each).startswith(f"{node.folder}/") for each in (control, last)):
            found.append(process)
    return found
