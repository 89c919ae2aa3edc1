"""Documents as the gateway shows them, made from the protobuf messages by its own code."""

from typing import Any

from gateway.http.shapes import json_of
from leasehold.admission.v1 import admission_service_pb2, workload_pb2
from leasehold.admission.v1.intent_pb2 import Intent, TrainingJob
from leasehold.billing.v1 import billing_service_pb2 as billing
from leasehold.billing.v1.ledger_events_pb2 import InvoiceLine

SECOND = 1_000_000
HOUR_US = 3600 * SECOND
AT = 1_794_999_666_000_000
QUEUED, RUNNING, SUCCEEDED, FAILED = 1, 3, 5, 6


def workload_message(number: int, name: str = "train", **fields: Any) -> workload_pb2.Workload:
    job = TrainingJob(command=["true"], gpu_model="H100", gpu_count=2, seconds_max=60)
    return workload_pb2.Workload(
        workload_id=workload_id(number),
        intent=Intent(name=name, project="default", type="training-job", training_job=job),
        submitted_at=AT,
        **fields,
    )


def workload(number: int, name: str = "train", **fields: Any) -> dict[str, Any]:
    return json_of(workload_message(number, name, **fields))


def workload_id(number: int) -> str:
    return f"wl_{number:021d}"


def lease_id(number: int) -> str:
    return f"lse_{number:021d}_1"


def workloads(*found: dict[str, Any], token: str = "") -> dict[str, Any]:
    return {"workloads": list(found), "next_page_token": token}


def explanation(waits: list[tuple[int, int, int, str]], **fields: Any) -> dict[str, Any]:
    """``waits`` are (from, until, reason, detail); the times count from submission."""
    found = admission_service_pb2.ExplainWorkloadResponse(
        workload=workload_message(1, state=QUEUED, reason=5, position=3, detail="needs 8, free 4"),
        gpus_requested=8,
        quota_gpus=16,
        quota_gpus_used=4,
        ahead=2,
        **fields,
    )
    for begin, end, reason, detail in waits:
        wait = {"from": AT + begin, "until": end and AT + end, "reason": reason, "detail": detail}
        found.waits.add(**wait)
    return json_of(found)


def costs(*leases: billing.LeaseCost) -> dict[str, Any]:
    balance = billing.Balance(currency="USD", prepaid_nanos=99, available_nanos=99)
    return json_of(billing.GetCostsResponse(leases=leases, balance=balance))


def lease_cost(number: int, amount_nanos: int) -> billing.LeaseCost:
    return billing.LeaseCost(
        lease_id=lease_id(number),
        gpu_model="H100",
        gpu_count=2,
        metered_us=10_405_534,
        amount_nanos=amount_nanos,
        currency="USD",
        price_nanos=2_490_000_000,
        per_gpu_us=HOUR_US,
    )


def invoice() -> dict[str, Any]:
    """10.405534 s × 2 GPUs × 2.49 USD / GPU-h, and 7 s of another."""
    lines = [
        _line(1, 10_405_534, gpu_count=2, exact_nanos=14_394_322, amount_nanos=10_000_000),
        _line(2, 36 * SECOND, gpu_count=4, exact_nanos=99_600_000, amount_nanos=100_000_000),
    ]
    return json_of(
        billing.Invoice(
            invoice_id="inv_000000000000000000000_000007",
            tenant_id="ten_1",
            number=7,
            currency="USD",
            issued_at=AT,
            lines=lines,
            total_nanos=110_000_000,
        )
    )


def _line(number: int, lasted_us: int, *, gpu_count: int, **fields: int) -> InvoiceLine:
    return InvoiceLine(
        line=number,
        lease_id=lease_id(number),
        project="default",
        gpu_model="H100",
        gpu_count=gpu_count,
        activated_at=AT,
        ended_at=AT + lasted_us,
        gpu_us=lasted_us * gpu_count,
        price_nanos=2_490_000_000,
        per_gpu_us=HOUR_US,
        **fields,
    )
