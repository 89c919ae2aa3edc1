"""The operator's commands: nodes, sources, instances, audits, envelopes, tenants, credentials."""

import json
from typing import Any

import pytest

from gateway.http.problems import PreconditionFailed
from gateway.http.shapes import json_of
from leasehold.admission.v1.workload_pb2 import Envelope
from leasehold.aggregator.v1 import aggregator_service_pb2 as aggregator
from leasehold.cli.failures import Exit
from leasehold.enforcement.v1 import enforcement_service_pb2 as enforcement
from leasehold.gateway.v1 import gateway_service_pb2 as tenancy
from leasehold.placement.v1 import node_pb2
from leasehold.placement.v1 import placement_service_pb2 as placement
from tests.cli.conftest import Run
from tests.cli.shapes import AT, lease_id
from tests.cli.standin import TENANT_ID, StandIn

pytestmark = pytest.mark.usefixtures("logged_in")

SOURCE = aggregator.Source(
    source_id="src_1", name="cloud", provider="simulated", endpoint="http://x"
)
INSTANCE = aggregator.Instance(
    instance_id="ins_1",
    source_id="src_1",
    offer="8xh100",
    status="running",
    price_nanos_per_hour=16 * 10**9,
    currency="USD",
)
ENVELOPE = f"/v1/tenants/{TENANT_ID}/envelope"


def test_nodes_show_their_gpus_by_model(gateway: StandIn, leasehold: Run) -> None:
    gpus = [node_pb2.Gpu(index=n, model="H100" if n < 6 else "L4") for n in range(8)]
    node = node_pb2.Node(
        node_id="nod_1",
        status="ready",
        hostname="n1",
        source="local",
        simulated=True,
        gpus=gpus,
        gpus_free=3,
        seen_at=AT,
    )
    gateway.on("GET", "/v1/nodes", json_of(placement.ListNodesResponse(nodes=[node])))
    _, out, _ = leasehold("nodes")
    assert "local (simulated)  6 × H100, 2 × L4     3  2026-11-18 11:01:06Z" in out


def test_a_node_is_invited_with_a_token(gateway: StandIn, leasehold: Run) -> None:
    answer = placement.IssueJoinTokenResponse(node_id="nod_1", token="once", expires_at=AT)
    gateway.on("POST", "/v1/nodes/join-tokens", json_of(answer))
    assert "once" in leasehold("nodes", "invite", "--source", "local")[1]
    (sent,) = gateway.calls("POST", "/v1/nodes/join-tokens")
    assert json.loads(sent.body) == {"source": "local"}


def test_guards_and_leases_are_listed(gateway: StandIn, leasehold: Run) -> None:
    guard = enforcement.Guard(lease_id=lease_id(1), step="throttle", memory_bytes_total=80 << 30)
    gateway.on("GET", "/v1/guards", json_of(enforcement.ListGuardsResponse(guards=[guard])))
    assert "throttle" in leasehold("guards")[1]
    lease = node_pb2.Lease(lease_id=lease_id(1), state=3, gpu_model="H100", slots=[0, 1])  # type: ignore[arg-type]
    gateway.on("GET", "/v1/leases", json_of(placement.ListLeasesResponse(leases=[lease])))
    assert "ACTIVE" in leasehold("leases")[1]


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (aggregator.AuditOrphansResponse(inventory_size=3), 0, "3 in the inventory, 0 orphans."),
        (
            aggregator.AuditOrphansResponse(
                orphans=[aggregator.Orphan(provider_id="vm-7", kind="ORPHAN_VM")], inventory_size=3
            ),
            Exit.NEGATIVE,
            "vm-7",
        ),
        (
            aggregator.AuditOrphansResponse(aborted="the inventory is partial"),
            Exit.NEGATIVE,
            "No conclusion: the inventory is partial.",
        ),
    ],
)
def test_an_audit_fails_on_orphans_and_without_a_conclusion(
    gateway: StandIn, leasehold: Run, answer: Any, code: int, said: str
) -> None:
    gateway.on("GET", "/v1/sources", json_of(aggregator.ListSourcesResponse(sources=[SOURCE])))
    gateway.on("POST", "/v1/sources/src_1/audit", json_of(answer))
    for name in ("cloud", "src_1"):
        exit_code, out, _ = leasehold("audit", name)
        assert (exit_code, said in out) == (code, True)
    assert leasehold("audit", "elsewhere")[0] == Exit.NOT_FOUND


def test_sources_are_added_and_instances_come_and_go(gateway: StandIn, leasehold: Run) -> None:
    gateway.on("GET", "/v1/sources", json_of(aggregator.ListSourcesResponse(sources=[SOURCE])))
    gateway.on("POST", "/v1/sources", json_of(SOURCE))
    gateway.on("POST", "/v1/instances", json_of(INSTANCE))
    gateway.on("DELETE", "/v1/instances/ins_1", json_of(INSTANCE))
    listed = aggregator.ListInstancesResponse(instances=[INSTANCE])
    gateway.on("GET", "/v1/instances", json_of(listed))
    assert leasehold("sources", "add", "cloud", "--endpoint", "http://x")[0] == 0
    assert leasehold("instances", "request", "cloud", "8xh100")[0] == 0
    assert "16.00 USD / h" in leasehold("instances")[1]
    assert leasehold("instances", "release", "ins_1")[0] == 0
    (sent,) = gateway.calls("POST", "/v1/instances")
    assert json.loads(sent.body) == {"source_id": "src_1", "offer": "8xh100"}


def test_an_envelope_is_changed_in_part_and_under_its_version(
    gateway: StandIn, leasehold: Run
) -> None:
    gateway.on("GET", ENVELOPE, envelope({"H100": 8, "L4": 2}, version=3))
    gateway.on("PUT", ENVELOPE, envelope({"H100": 16}, version=4))
    arguments = ["envelope", "set", "acme", "--gpus", "H100=16", "--gpus", "L4=0"]
    assert leasehold(*arguments)[0] == 0
    (sent,) = gateway.calls("PUT", ENVELOPE)
    assert sent.headers["if-match"] == '"3"'
    assert json.loads(sent.body) == {"gpu_quota": {"H100": 16}, "tier": "standard", "traits": []}


def test_a_change_whose_answer_was_lost_is_recognised(gateway: StandIn, leasehold: Run) -> None:
    versions = iter([3, 4])
    gateway.on("PUT", ENVELOPE, PreconditionFailed("the envelope has version 4 by now"))
    gateway.on("GET", ENVELOPE, lambda _: envelope({"H100": 8}, version=next(versions)))
    assert leasehold("envelope", "set", "acme", "--gpus", "H100=8")[0] == 0
    gateway.on("GET", ENVELOPE, envelope({"H100": 1}, version=5))
    code, _, err = leasehold("envelope", "set", "acme", "--gpus", "H100=8")
    assert (code, "(PRECONDITION_FAILED)" in err) == (Exit.NEGATIVE, True)


@pytest.mark.parametrize("gpus", ["H100", "H100=", "=8", "H100=-1", "H100=1.5"])
def test_a_quota_that_is_not_one_is_refused(gateway: StandIn, leasehold: Run, gpus: str) -> None:
    gateway.on("GET", ENVELOPE, envelope({}, version=1))
    assert leasehold("envelope", "set", "acme", "--gpus", gpus)[0] == Exit.USAGE
    assert not gateway.calls("PUT", ENVELOPE)


def test_tenants_are_suspended_and_credentials_issued(gateway: StandIn, leasehold: Run) -> None:
    tenant = json_of(tenancy.Tenant(tenant_id=TENANT_ID, name="acme", status="suspended"))
    for verb in ("suspend", "resume"):
        gateway.on("POST", f"/v1/tenants/{TENANT_ID}/{verb}", tenant)
    gateway.on("POST", "/v1/credentials", {"client_id": "cli_2", "client_secret": "lhs_shown"})
    gateway.on("DELETE", "/v1/credentials/cli_2", {})
    assert leasehold("tenant", "suspend", "acme", "--reason", "unpaid")[0] == 0
    assert leasehold("tenant", "resume", "acme")[0] == 0
    assert "lhs_shown" in leasehold("credential", "issue", "--role", "viewer")[1]
    assert leasehold("credential", "revoke", "cli_2")[0] == 0
    assert leasehold("credential", "revoke", "../tenants")[0] == Exit.NOT_FOUND


def envelope(quota: dict[str, int], version: int) -> dict[str, Any]:
    return json_of(Envelope(gpu_quota=quota, tier="standard", version=version))
