"""Between protobuf messages and the words of placement. Pure."""

import re

from chassis.errors import Invalid
from leasehold.placement.v1 import node_pb2, node_service_pb2
from leasehold.placement.v1 import placement_service_pb2 as service_pb2
from placement.domain.lease import Lease
from placement.domain.node import Node
from placement.policy import (
    Evidence,
    Gpu,
    HoldRequest,
    HoldResult,
    Order,
    Orders,
    RunState,
    RunStatus,
)

HOLDS_MAX = 1000
STATUSES_MAX = 1000
GPUS_MAX = 256
PAGE_SIZE = 50
PAGE_SIZE_MAX = 500
TEXT_CHARACTERS_MAX = 256

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}", re.ASCII)
_SOURCE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)

_LEASE_STATES = {
    "held": node_pb2.LEASE_STATE_HELD,
    "bound": node_pb2.LEASE_STATE_BOUND,
    "active": node_pb2.LEASE_STATE_ACTIVE,
    "draining": node_pb2.LEASE_STATE_DRAINING,
    "ended": node_pb2.LEASE_STATE_ENDED,
    "lapsed": node_pb2.LEASE_STATE_LAPSED,
    "refused": node_pb2.LEASE_STATE_LAPSED,
}
_RUN_STATES = {
    node_service_pb2.RUN_STATE_RUNNING: RunState.RUNNING,
    node_service_pb2.RUN_STATE_EXITED: RunState.EXITED,
    node_service_pb2.RUN_STATE_START_FAILED: RunState.START_FAILED,
}


def hold_requests(message: service_pb2.PlaceHoldsRequest) -> list[HoldRequest]:
    if len(message.holds) > HOLDS_MAX:
        raise Invalid(f"at most {HOLDS_MAX} holds in one call", code="TOO_MANY", field="holds")
    return [_hold_request(hold) for hold in message.holds]


def _hold_request(message: service_pb2.HoldRequest) -> HoldRequest:
    for name in ("lease_id", "tenant_id", "workload_id"):
        _checked(_ID, getattr(message, name), f"holds.{name}")
    _checked(_MODEL, message.gpu_model, "holds.gpu_model")
    if message.gpu_count < 1:
        raise Invalid("gpu_count must be at least 1", code="GPU_COUNT", field="holds.gpu_count")
    return HoldRequest(
        lease_id=message.lease_id,
        tenant_id=message.tenant_id,
        workload_id=message.workload_id,
        gpu_model=message.gpu_model,
        gpu_count=message.gpu_count,
        correlation_id=message.correlation_id or message.workload_id,
        causation_id=message.causation_id,
    )


def hold_results(results: list[HoldResult]) -> service_pb2.PlaceHoldsResponse:
    return service_pb2.PlaceHoldsResponse(results=[_hold_result(result) for result in results])


def _hold_result(result: HoldResult) -> service_pb2.HoldResult:
    return service_pb2.HoldResult(
        lease_id=result.lease_id,
        refusal=f"HOLD_REFUSAL_{result.refusal}" if result.refusal else None,
        detail=result.detail,
        expires_at=result.expires_at,
    )


def lease(found: Lease) -> node_pb2.Lease:
    return node_pb2.Lease(
        lease_id=found.id,
        tenant_id=found.tenant_id,
        workload_id=found.workload_id,
        state=_LEASE_STATES[found.status],
        node_id=found.node_id,
        gpu_model=found.gpu_model,
        slots=found.slots,
        fencing_token=found.fencing_token,
        expires_at=found.expires_at,
        activated_at=found.activated_at,
        ended_at=found.ended_at,
        release_sha256=found.release_sha256,
        cause=found.cause,
        exit_code=found.exit_code,
        detail=found.detail,
    )


def node(found: Node, *, silent: bool, gpus_free: int, seen_at: int) -> node_pb2.Node:
    return node_pb2.Node(
        node_id=found.id,
        status="silent" if silent and found.status == "ready" else found.status,
        hostname=found.hostname,
        source=found.source,
        simulated=found.simulated,
        gpus=[node_pb2.Gpu(**gpu) for gpu in found.gpus],
        gpus_free=gpus_free,
        seen_at=seen_at,
    )


def page(message: service_pb2.ListLeasesRequest) -> tuple[int, int]:
    """Where to go on from (0: the top) and how many at most."""
    token, size = message.page_token, message.page_size or PAGE_SIZE
    if not 1 <= size <= PAGE_SIZE_MAX:
        raise Invalid(f"page_size is 1 to {PAGE_SIZE_MAX}", code="PAGE_SIZE", field="page_size")
    if token and not re.fullmatch(r"[1-9][0-9]{0,17}", token, re.ASCII):
        raise Invalid("not a page token of ours", code="PAGE_TOKEN", field="page_token")
    return int(token or 0), size


def source(message: service_pb2.IssueJoinTokenRequest) -> str:
    return _checked(_SOURCE, message.source or "local", "source")


def evidence(message: node_service_pb2.JoinNodeRequest, key_sha256: str) -> Evidence:
    if len(message.gpus) > GPUS_MAX:
        raise Invalid(f"at most {GPUS_MAX} GPUs", code="TOO_MANY", field="gpus")
    return Evidence(
        hostname=_short(message.hostname, "hostname"),
        boot_id=_boot_id(message.boot_id),
        driver_version=_short(message.driver_version, "driver_version"),
        simulated=message.simulated,
        gpus=tuple(
            Gpu(
                index=gpu.index,
                uuid=_short(gpu.uuid, "gpus.uuid"),
                model=_short(gpu.model, "gpus.model"),
                name=_short(gpu.name, "gpus.name"),
                memory_bytes=gpu.memory_bytes,
                pci_bus_id=_short(gpu.pci_bus_id, "gpus.pci_bus_id"),
            )
            for gpu in message.gpus
        ),
        key_sha256=key_sha256,
    )


def run_statuses(message: node_service_pb2.SyncNodeRequest) -> list[RunStatus]:
    _boot_id(message.boot_id)
    if len(message.statuses) > STATUSES_MAX:
        raise Invalid(f"at most {STATUSES_MAX} statuses", code="TOO_MANY", field="statuses")
    return [_run_status(status) for status in message.statuses]


def _run_status(message: node_service_pb2.RunStatus) -> RunStatus:
    state = _RUN_STATES.get(message.state)
    if state is None:
        raise Invalid(f"no run state {message.state}", code="RUN_STATE", field="statuses.state")
    return RunStatus(
        lease_id=message.lease_id,
        fencing_token=message.fencing_token,
        state=state,
        run_us=max(0, message.run_us),
        exit_code=message.exit_code,
        cause=message.cause,
        error=message.error,
    )


def sync_response(found: Orders) -> node_service_pb2.SyncNodeResponse:
    return node_service_pb2.SyncNodeResponse(
        revision=found.revision,
        assignments=[_assignment(order, found.at) for order in found.orders],
        settled=found.settled,
        at=found.at,
    )


def _assignment(order: Order, at: int) -> node_service_pb2.Assignment:
    return node_service_pb2.Assignment(
        lease_id=order.lease_id,
        tenant_id=order.tenant_id,
        fencing_token=order.fencing_token,
        slots=order.slots,
        manifest=order.manifest,
        run=order.run,
        grace_us=order.grace_us,
        remaining_us=max(0, order.expires_at - at),
        constraint=order.constraint,
        correlation_id=order.correlation_id,
        stop_cause=order.stop_cause,
    )


def _boot_id(text: str) -> str:
    return _checked(_ID, text, "boot_id")


def _short(text: str, field: str) -> str:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise Invalid(f"{field} is too long", code="TOO_LONG", field=field)
    return text


def _checked(form: re.Pattern[str], text: str, field: str) -> str:
    if not form.fullmatch(text):
        code = field.rpartition(".")[2].upper()
        raise Invalid(f"{text[:80]!r} is no {field}", code=code, field=field)
    return text
