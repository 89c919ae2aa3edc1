"""Nodes: who is let in, what a lying clock changes, and what a job survives on its machine."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from chassis import identity
from chassis.clock import SECOND, now
from leasehold.launcher.platform import Platform
from leasehold.placement.v1 import node_pb2
from leasehold.placement.v1 import node_service_pb2 as node_pb
from leasehold.placement.v1 import placement_service_pb2 as pb
from leasehold.placement.v1.node_service_pb2_grpc import JoinServiceStub, NodeServiceStub
from leasehold.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from node_agent.uptime import boot_id
from tests.story.books import OVERHEAD_US_MAX, Books
from tests.story.customer import Customer, SignUp, operator, timed
from tests.story.heads import Heads
from tests.story.speakers import SECONDS, Speakers, refusal
from tests.story.test_story import shared
from tests.waiting import wait_for

pytestmark = pytest.mark.story

CODE = grpc.StatusCode
HOUR = 3600 * SECOND


@pytest.fixture
def speakers(platform: Platform) -> Iterator[Speakers]:
    speakers = Speakers(platform)
    yield speakers
    speakers.close()


@pytest.fixture
def heads(platform: Platform) -> Iterator[Heads]:
    heads = Heads(platform)
    yield heads
    heads.close()


def test_both_machines_are_shown_with_their_simulated_gpus(platform: Platform) -> None:
    staff = operator(platform)
    nodes = {node["node_id"]: node for node in staff.get("/v1/nodes")["nodes"]}
    staff.close()
    for name in platform.node_names:
        node = nodes[(platform.state / "nodes" / name / "node_id").read_text()]
        assert (node["status"], node["simulated"], node["source"]) == ("ready", True, "local")
        assert [gpu["index"] for gpu in node["gpus"]] == list(range(8))
        assert {gpu["model"] for gpu in node["gpus"]} == {"H100"}
        assert len({gpu["uuid"] for gpu in node["gpus"]}) == 8
        assert now() - node["seen_at"] < 30 * SECOND


def test_a_token_lets_one_machine_in_once(speakers: Speakers, heads: Heads) -> None:
    joins = JoinServiceStub(speakers.joining())
    brief, token = invite(speakers, seconds=1), invite(speakers).token
    first, second = Machine("imposter-a"), Machine("imposter-b")
    joined = joins.JoinNode(first.request(token), timeout=SECONDS)
    wait_for(lambda: now() > brief.expires_at, what="the token has expired")
    with heads.unchanged():
        again = joins.JoinNode(first.request(token), timeout=SECONDS)
        assert again.node_id == joined.node_id, "its first answer may have been lost"
        for shown, code in (
            (token, "TOKEN_USED"),
            (brief.token, "TOKEN_EXPIRED"),
            ("guessed", "TOKEN_UNKNOWN"),
            ("", "TOKEN_UNKNOWN"),
        ):
            refused = refusal(joins.JoinNode, second.request(shown))
            assert refused == (CODE.PERMISSION_DENIED, code)
        unsigned = second.request(token)
        unsigned.certificate_request = "-----BEGIN CERTIFICATE REQUEST-----\nx"
        assert refusal(joins.JoinNode, unsigned) == (CODE.INVALID_ARGUMENT, "CSR")
    # Whoever shows the same GPUs with another token is kept apart, and so is its double.
    double = refusal(joins.JoinNode, first.request(invite(speakers).token))
    assert double == (CODE.FAILED_PRECONDITION, "GPU_CLAIMED_TWICE")
    statuses = {node.hostname: node.status for node in all_nodes(speakers)}
    assert statuses["imposter-a.example"] == "quarantined"


def test_a_node_whose_clock_is_an_hour_ahead_is_billed_by_ours(
    platform: Platform, speakers: Speakers, sign_up: SignUp, books: Books, tmp_path: Path
) -> None:
    customer = sign_up("clock")
    witness = shared(tmp_path) / "duration"
    workload_id = customer.submit("ticking", timed(2, witness))
    lease = running_lease(customer, workload_id)
    name = folder_of(platform, lease["node_id"]).name
    node = NodeServiceStub(speakers.node(name, "placement"))
    for ahead_us in (HOUR, -HOUR):
        status = node_pb.RunStatus(
            lease_id=lease["lease_id"],
            fencing_token=lease["fencing_token"],
            state=node_pb.RUN_STATE_RUNNING,
            run_us=1,
        )
        # It claims to have every assignment, so that none counts as handed over to it.
        request = node_pb.SyncNodeRequest(
            boot_id=boot_id(), wall_at=now() + ahead_us, statuses=[status], revision=2**40
        )
        node.SyncNode(request, timeout=SECONDS)
    lease_us = seen_out(customer, books, workload_id, "SUCCEEDED")
    assert 0 <= lease_us - int(witness.read_text()) < OVERHEAD_US_MAX
    (activated,) = (
        event
        for event in books.events("placement", customer.tenant_id)
        if event["meta"]["topic"] == "placement.lease.activated"
    )
    assert abs(activated["activated_at"] - activated["meta"]["at"]) < 10 * SECOND


def test_a_job_does_not_notice_that_its_agent_was_killed(
    platform: Platform, sign_up: SignUp, books: Books, tmp_path: Path
) -> None:
    customer = sign_up("agentless")
    witness = shared(tmp_path) / "duration"
    workload_id = customer.submit("steady", timed(2, witness))
    lease = running_lease(customer, workload_id)
    platform.kill(folder_of(platform, lease["node_id"]).name)
    lease_us = seen_out(customer, books, workload_id, "SUCCEEDED")
    assert 0 <= lease_us - int(witness.read_text()) < OVERHEAD_US_MAX
    platform.wait_ready()


def test_a_job_whose_supervisor_was_killed_ends_with_it_and_pays_for_what_is_proven(
    sign_up: SignUp, books: Books
) -> None:
    customer = sign_up("unsupervised")
    began = now()
    workload_id = customer.submit("orphaned", "echo begun; sleep 600", seconds_max=900)
    lease = running_lease(customer, workload_id)
    (supervisor,) = processes(lease["lease_id"])
    job = psutil.Process(supervisor).children(recursive=True)
    assert job
    psutil.Process(supervisor).send_signal(signal.SIGKILL)
    lease_us = seen_out(customer, books, workload_id, "FAILED")
    assert customer.workload(workload_id)["cause"] == "NODE_LOST"
    assert 0 < lease_us < now() - began
    wait_for(lambda: not any(map(is_alive, job)), what="nothing of the job is left")


class Machine:
    """A machine that wants to join. Its GPUs are of a model that no story asks for."""

    def __init__(self, name: str) -> None:
        self._name = name
        _, request = identity.new_key_and_request()
        self._certificate_request = request.decode()

    def request(self, token: str) -> node_pb.JoinNodeRequest:
        gpu = node_pb2.Gpu(index=0, uuid=f"GPU-{self._name}", model="T4")
        return node_pb.JoinNodeRequest(
            token=token,
            certificate_request=self._certificate_request,
            hostname=f"{self._name}.example",
            boot_id="boot-1",
            simulated=True,
            gpus=[gpu],
        )


def invite(speakers: Speakers, seconds: int = 0) -> pb.IssueJoinTokenResponse:
    placement = PlacementServiceStub(speakers.operator("placement"))
    request = pb.IssueJoinTokenRequest(source="local", seconds_valid=seconds)
    return placement.IssueJoinToken(request, timeout=SECONDS)


def all_nodes(speakers: Speakers) -> list[node_pb2.Node]:
    placement = PlacementServiceStub(speakers.operator("placement"))
    return list(placement.ListNodes(pb.ListNodesRequest(), timeout=SECONDS).nodes)


def folder_of(platform: Platform, node_id: str) -> Path:
    """The machine of a node; it bears the name of its process."""
    folders = (platform.state / "nodes").iterdir()
    return next(one for one in folders if (one / "node_id").read_text() == node_id)


def running_lease(customer: Customer, workload_id: str) -> dict[str, Any]:
    wait_for(
        lambda: customer.workload(workload_id)["state"] == "RUNNING", seconds=30, what="the start"
    )
    lease_id = customer.workload(workload_id)["lease_id"]
    found: dict[str, Any] = customer.get(f"/v1/leases/{lease_id}")
    return found


def seen_out(customer: Customer, books: Books, workload_id: str, state: str) -> int:
    """Waits for the end, checks the books, and answers the lease's microseconds."""
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    wait_for(lambda: books.is_settled(customer.tenant_id), seconds=30, what="the last posting")
    assert customer.workload(workload_id)["state"] == state
    (lease_us,) = books.check(customer.tenant_id, [workload_id]).values()
    return lease_us


def processes(lease_id: str) -> list[int]:
    """The supervisors of a lease's job."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "node_agent.supervisor" in (words := process.info["cmdline"] or [])
        and words[-1].endswith(lease_id)
    ]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
