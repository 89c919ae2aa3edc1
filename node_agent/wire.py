"""Between the messages of the platform and the words of the node. Pure.

A manifest comes rendered by the platform, and is still read strictly: what is not understood is
refused with a reason that the tenant can read, never guessed.
"""

import json
import re
from typing import Any

from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.enforcement.v1 import enforcement_service_pb2 as enforcement_pb
from leasehold.placement.v1 import node_pb2, node_service_pb2
from node_agent.gpus import Gpu, Reading
from node_agent.metering import Slice
from node_agent.policy import (
    GRACE_US,
    NO_EXIT_CODE,
    Assignment,
    Desired,
    JobState,
    Program,
    Refuse,
    Run,
    Skip,
)

_KINDS = {("leasehold.local/v1", "TrainingJob")}
# Lease ids name folders.
_LEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", re.ASCII)


class Unreadable(ValueError):
    """An assignment that the node cannot carry out; the message says why."""


def gpu(found: Gpu) -> node_pb2.Gpu:
    return node_pb2.Gpu(
        index=found.index,
        uuid=found.uuid,
        model=found.model,
        name=found.name,
        memory_bytes=found.memory_bytes,
        pci_bus_id=found.pci_bus_id,
    )


def assignment(message: node_service_pb2.Assignment, asked_at: int) -> Assignment:
    """``asked_at``: time since boot when the question was sent.

    The time left is counted from then, which is never later than the moment of the answer, so
    that a slow answer cannot let a lease outlive its expiry.
    """
    try:
        understood, fault = program(message.lease_id, message.manifest), ""
    except Unreadable as error:
        understood, fault = None, str(error)
    desired = Desired(
        deadline_us=asked_at + message.remaining_us,
        stop=not message.run,
        stop_cause="" if message.run else message.stop_cause,
        grace_us=0 if message.run else message.grace_us or GRACE_US,
        constraint=message.constraint,
    )
    return Assignment(
        lease_id=message.lease_id,
        fencing_token=message.fencing_token,
        slots=tuple(message.slots),
        desired=desired,
        program=understood,
        tenant_id=message.tenant_id,
        correlation_id=message.correlation_id,
        fault=fault,
    )


def program(lease_id: str, manifest: str) -> Program:
    if not _LEASE_ID.fullmatch(lease_id):
        raise Unreadable("the lease id is not a plain name")
    try:
        document = json.loads(manifest)
    except (ValueError, RecursionError):
        raise Unreadable("the manifest is not JSON") from None
    if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
        raise Unreadable("the manifest is not an object with a spec")
    if (document.get("apiVersion"), document.get("kind")) not in _KINDS:
        raise Unreadable("the manifest is of a kind that this node does not run")
    return _program(document["spec"])


def _program(spec: dict[str, Any]) -> Program:
    command, environment = spec.get("command"), spec.get("environment", {})
    seconds_max = spec.get("secondsMax", 0)
    if not isinstance(command, list) or not command or not all(map(_is_text, command)):
        raise Unreadable("command is not a list of text")
    if not isinstance(environment, dict) or not all(map(_is_text, environment.values())):
        raise Unreadable("environment is not a table of text")
    if type(seconds_max) is not int or seconds_max < 0:
        raise Unreadable("secondsMax is not a number of seconds")
    if spec.get("restart", "Never") != "Never":
        raise Unreadable("a program is never restarted under the same lease")
    return Program(tuple(command), environment, seconds_max)


def status(run: Run) -> node_service_pb2.RunStatus:
    if run.state is not JobState.EXITED:
        state = node_service_pb2.RUN_STATE_RUNNING
    elif run.error:
        state = node_service_pb2.RUN_STATE_START_FAILED
    else:
        state = node_service_pb2.RUN_STATE_EXITED
    return node_service_pb2.RunStatus(
        lease_id=run.lease_id,
        fencing_token=run.fencing_token,
        state=state,
        run_us=run.run_us,
        exit_code=run.exit_code,
        cause=run.cause,
        error=run.error,
    )


def refusal(refused: Refuse | Skip) -> node_service_pb2.RunStatus:
    """The status of a lease that never had a job here."""
    message = node_service_pb2.RunStatus(
        lease_id=refused.assignment.lease_id,
        fencing_token=refused.assignment.fencing_token,
        exit_code=NO_EXIT_CODE,
    )
    if isinstance(refused, Skip):
        message.state, message.cause = node_service_pb2.RUN_STATE_EXITED, "STOPPED"
    else:
        message.state = node_service_pb2.RUN_STATE_START_FAILED
        message.error = f"{refused.refusal}: {refused.detail}"
    return message


def slice_(run: Run, cut: Slice) -> billing_pb.Slice:
    return billing_pb.Slice(
        lease_id=run.lease_id,
        fencing_token=run.fencing_token,
        boot_id=run.boot_id,
        seq=cut.seq,
        from_us=cut.from_us,
        until_us=cut.until_us,
    )


def sample(reading: Reading, seq: int) -> enforcement_pb.GpuSample:
    return enforcement_pb.GpuSample(
        seq=seq,
        slot=reading.index,
        gpu_uuid=reading.uuid,
        memory_bytes_used=reading.memory_bytes_used,
        memory_bytes_total=reading.memory_bytes_total,
        utilisation_percent=reading.utilisation_percent,
        temperature_celsius=reading.temperature_celsius,
        power_milliwatts=reading.power_milliwatts,
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
