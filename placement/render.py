"""From an intent to a release: the manifest that an orchestrator runs, frozen and hashed.

A component type turns an intent's knobs into a manifest for one orchestrator. Everything that
attributes cost, isolates tenants or chooses hardware is written here from facts of the platform;
an intent that tries to say any of it is rejected, never overridden. The same inputs give the
same bytes for as long as the type's version stands: a changed output needs a new version.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chassis import canonical
from chassis.errors import Invalid
from placement.policy import Release

API_VERSION = "leasehold.local/v1"
TRAINING_JOB = "training-job"

INTENT_FIELDS = frozenset({"name", "project", "env", "type", "training_job", "traits"})
JOB_FIELDS = frozenset({"command", "environment", "gpu_model", "gpu_count", "seconds_max"})
# Names that the platform or the driver set; with one of them a program could pose as another
# lease, reach GPUs that it did not lease, or load code before the platform's limits apply.
OWNED_VARIABLE = re.compile(r"LD_PRELOAD|LD_AUDIT|(NVIDIA|CUDA|LEASEHOLD)_.*", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class Cell:
    """What the platform knows of the lease that a component is rendered into."""

    lease_id: str
    tenant_id: str
    workload_id: str
    gpu_uuids: tuple[str, ...]


Document = dict[str, Any]
Renderer = Callable[[Mapping[str, Any], Cell], Document]


def release(intent: Mapping[str, Any], cell: Cell, orchestrator: str = "local") -> Release:
    """Render ``intent`` (field names as in its message) or raise Invalid with the first flaw."""
    kind, _, asked = str(intent.get("type", "")).partition("/")
    version = asked or str(CURRENT_VERSION.get(kind, ""))
    render = COMPONENT_TYPES.get((kind, version, orchestrator))
    if render is None:
        raise Invalid(f"no component type {intent.get('type')!r} for {orchestrator}", code="TYPE")
    _refuse_unknown(intent, INTENT_FIELDS, "")
    for field in ("name", "project", "env"):
        if not intent.get(field):
            raise Invalid(f"an intent needs {field}", code=field.upper(), field=field)
    for trait in intent.get("traits") or ():
        raise Invalid(f"no trait {trait!r}", code="TRAIT", field="traits")
    manifest = canonical.dumps(render(intent, cell))
    return Release(
        project=intent["project"],
        env=intent["env"],
        manifest=manifest.decode(),
        sha256=hashlib.sha256(manifest).hexdigest(),
        type_version=f"{kind}/{version}",
        seconds_max=intent["training_job"].get("seconds_max", 0),
    )


def _training_job_for_local(intent: Mapping[str, Any], cell: Cell) -> Document:
    job = intent.get("training_job") or {}
    _refuse_unknown(job, JOB_FIELDS, "training_job.")
    command = list(job.get("command") or ())
    if not command:
        raise Invalid(
            "a training job needs a command", code="COMMAND", field="training_job.command"
        )
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": _metadata(intent, cell),
        "spec": {
            "command": command,
            "environment": _environment(job.get("environment") or {}, intent, cell),
            "gpus": list(cell.gpu_uuids),
            "secondsMax": job.get("seconds_max", 0),
            "restart": "Never",
        },
    }


def _metadata(intent: Mapping[str, Any], cell: Cell) -> Document:
    return {
        "name": intent["name"],
        "namespace": f"{intent['project']}-{intent['env']}",
        "labels": {
            "cost/project": intent["project"],
            "cost/tenant": cell.tenant_id,
            "leasehold/lease": cell.lease_id,
            "leasehold/queue": f"{intent['project']}-queue",
            "leasehold/workload": cell.workload_id,
        },
    }


def _environment(asked: Mapping[str, str], intent: Mapping[str, Any], cell: Cell) -> Document:
    for name in sorted(asked):
        if OWNED_VARIABLE.fullmatch(name):
            raise Invalid(
                f"{name} belongs to the platform",
                code="PLATFORM_OWNED",
                field=f"training_job.environment.{name}",
            )
    return {
        **asked,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(cell.gpu_uuids),
        "LEASEHOLD_ENV": intent["env"],
        "LEASEHOLD_GPU_COUNT": str(len(cell.gpu_uuids)),
        "LEASEHOLD_LEASE_ID": cell.lease_id,
        "LEASEHOLD_NAME": intent["name"],
        "LEASEHOLD_PROJECT": intent["project"],
        "LEASEHOLD_TENANT_ID": cell.tenant_id,
        "LEASEHOLD_WORKLOAD_ID": cell.workload_id,
    }


def _refuse_unknown(document: Mapping[str, Any], known: frozenset[str], path: str) -> None:
    for name in sorted(set(document) - known):
        raise Invalid(
            f"{name!r} is not a knob of this type", code="PLATFORM_OWNED", field=f"{path}{name}"
        )


# (type, version, orchestrator) -> renderer. A version stays until nobody's intent names it.
COMPONENT_TYPES: dict[tuple[str, str, str], Renderer] = {
    (TRAINING_JOB, "1", "local"): _training_job_for_local,
}
CURRENT_VERSION = {TRAINING_JOB: "1"}
