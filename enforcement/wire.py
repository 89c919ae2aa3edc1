"""Protobuf to enforcement's values and back."""

from chassis.errors import Invalid
from enforcement.domain import Guard
from enforcement.policy import Sample
from leasehold.enforcement.v1 import enforcement_service_pb2 as pb

SAMPLES_MAX = 10_000


def samples(request: pb.ReportTelemetryRequest) -> list[Sample]:
    if not request.boot_id:
        raise Invalid("boot_id is missing", code="BOOT_ID", field="boot_id")
    if len(request.samples) > SAMPLES_MAX:
        raise Invalid(f"at most {SAMPLES_MAX} samples in one call", field="samples")
    return [
        Sample(
            seq=sample.seq,
            slot=sample.slot,
            gpu_uuid=sample.gpu_uuid,
            memory_bytes_used=sample.memory_bytes_used,
            memory_bytes_total=sample.memory_bytes_total,
            utilisation_percent=sample.utilisation_percent,
        )
        for sample in request.samples
    ]


def guard(aggregate: Guard, latest: Sample | None) -> pb.Guard:
    return pb.Guard(
        lease_id=aggregate.id.removeprefix("grd_"),
        tenant_id=aggregate.tenant_id,
        node_id=aggregate.node_id,
        step=aggregate.step,
        memory_bytes_used=latest.memory_bytes_used if latest else 0,
        memory_bytes_total=latest.memory_bytes_total if latest else 0,
    )
