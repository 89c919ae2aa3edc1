"""The authorisation table lists every RPC of the platform against every role, and no other."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor

from chassis.callers import ANYONE
from leasehold.authorisation import ROLES, TABLE, parse

PROTOS = Path(__file__).parents[2] / "protos"
BILLING = "/leasehold.billing.v1.BillingService/"
PLACEMENT = "/leasehold.placement.v1.PlacementService/"
NODES = "/leasehold.placement.v1.NodeService/"
LOG = "/leasehold.chassis.v1.LogService/"
TENANTS = {"tenant_viewer", "tenant_user", "tenant_admin"}
SERVICES = {"gateway", "admission", "placement", "aggregator", "enforcement", "billing"}


def test_every_rpc_has_a_row_and_every_row_has_an_rpc() -> None:
    assert set(TABLE) == every_rpc()
    assert len(TABLE) > 40


def test_every_row_answers_for_every_role() -> None:
    assert len(ROLES) == 12
    for method, row in TABLE.items():
        assert set(row) == {*ROLES, ANYONE}, method


@pytest.mark.parametrize(
    ("method", "allowed"),
    [
        (BILLING + "RecordSlices", {"node"}),
        (BILLING + "PlaceHolds", {"admission"}),
        (BILLING + "ReleaseHolds", {"admission"}),
        (BILLING + "TopUp", {"finance", "operator"}),
        (BILLING + "PublishPrice", {"finance", "operator"}),
        (BILLING + "IssueInvoice", {"finance", "operator", "tenant_admin"}),
        (PLACEMENT + "PlaceHolds", {"admission"}),
        (PLACEMENT + "ReleaseHolds", {"admission"}),
        (PLACEMENT + "IssueJoinToken", {"operator", "aggregator"}),
        (PLACEMENT + "ReadLogs", TENANTS),
        (NODES + "SyncNode", {"node"}),
        (NODES + "RenewCertificate", {"node"}),
        (NODES + "AppendLogs", {"node"}),
        ("/leasehold.enforcement.v1.EnforcementService/ReportTelemetry", {"node"}),
        (
            "/leasehold.admission.v1.AdmissionService/SubmitWorkload",
            {"tenant_user", "tenant_admin"},
        ),
        ("/leasehold.admission.v1.AdmissionService/SetEnvelope", {"operator"}),
        ("/leasehold.gateway.v1.GatewayService/SignUpTenant", {"operator", "gateway"}),
        ("/leasehold.gateway.v1.GatewayService/SuspendTenant", {"operator"}),
        (LOG + "Replay", {*SERVICES, "operator", "finance"}),
        (LOG + "GetHead", {*SERVICES, "operator", "finance"}),
        (LOG + "GetState", {"operator"}),
        (LOG + "ListParked", {"operator"}),
        (LOG + "RedriveParked", {"operator"}),
    ],
)
def test_these_and_nobody_else(method: str, allowed: set[str]) -> None:
    assert {role for role, yes in TABLE[method].items() if yes} == allowed


def test_without_a_certificate_one_can_only_join() -> None:
    assert [method for method, row in TABLE.items() if row[ANYONE]] == [
        "/leasehold.placement.v1.JoinService/JoinNode"
    ]


def test_a_node_reaches_only_what_a_node_reports_to() -> None:
    assert {method.rpartition("/")[2] for method, row in TABLE.items() if row["node"]} == {
        "JoinNode", "RenewCertificate", "SyncNode", "AppendLogs", "RecordSlices", "ReportTelemetry",
    }  # fmt: skip


def test_a_viewer_changes_nothing() -> None:
    reading = ("Get", "List", "Explain", "Export", "Read", "Join")
    for method, row in TABLE.items():
        if row["tenant_viewer"]:
            assert method.rpartition("/")[2].startswith(reading), method


@pytest.mark.parametrize("row", ["A y", "A y - y", "A y x", "A y -\n    A y -"])
def test_an_unclear_row_stops_the_program(row: str) -> None:
    with pytest.raises(ValueError, match="unclear row: A"):
        parse(f"   fi op\npackage.Service\n    {row}\n")


def every_rpc() -> set[str]:
    """From the generated descriptors of every proto."""
    found = set()
    for path in PROTOS.rglob("*.proto"):
        module = ".".join(path.relative_to(PROTOS).with_suffix("").parts) + "_pb2"
        file: FileDescriptor = importlib.import_module(module).DESCRIPTOR
        for service in file.services_by_name.values():
            found |= {f"/{service.full_name}/{method.name}" for method in service.methods}
    return found
