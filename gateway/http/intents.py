"""An author's intent document, in YAML or JSON, as the Intent that admission governs.

Here the document's form is checked: its shape, its types, and that it names nothing which the
platform owns. Whether what it asks for makes sense is admission's to say; ``document_path`` maps
admission's answer back to the words the author wrote.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from chassis.errors import Invalid, ServiceError
from gateway.http.bodies import Body
from leasehold.admission.v1.intent_pb2 import Intent, TrainingJob

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
MODEL = r"^[A-Za-z0-9][A-Za-z0-9-]{0,31}$"

# Rendered by the platform, whatever the document: attribution must not depend on its subject.
# Compared without case and separators.
_OWNED = {
    "accelerator", "affinity", "annotations", "costcenter", "fencingtoken", "finalizers",
    "hostipc", "hostnetwork", "hostpath", "hostpid", "labels", "leaseid", "namespace", "nodename",
    "nodeselector", "ownerreferences", "placementgroup", "price", "priority", "priorityclass",
    "priorityclassname", "privileged", "queue", "queuename", "runtimeclassname", "schedulername",
    "securitycontext", "serviceaccount", "serviceaccountname", "slots", "status", "tenant",
    "tenantid", "tier", "tolerations", "topologyspreadconstraints", "uid", "volumes",
    "workloadid",
}  # fmt: skip
# The author's own names: what they may be is admission's to say.
_FREE = "spec.environment"


class Metadata(Body):
    name: Name
    project: Name = "default"


class Spec(Body):
    model_config = ConfigDict(alias_generator=to_camel)

    type: Literal["training-job"]
    env: Literal["dev", "staging", "prod"] = "dev"
    gpus: int = Field(ge=1, le=100_000)
    gpu_model: str = Field(pattern=MODEL)
    command: list[str] = Field(min_length=1, max_length=256)
    environment: dict[str, str] = Field(default={}, max_length=64)
    seconds_max: int = Field(ge=1, le=30 * 24 * 3600)
    traits: list[Name] = Field(default=[], max_length=16)


class IntentDocument(Body):
    """One component of a platform-defined type, with the knobs that type exposes."""

    model_config = ConfigDict(alias_generator=to_camel)
    media: ClassVar[tuple[str, ...]] = ("application/json", "application/yaml")

    api_version: Literal["leasehold/v1"]
    kind: Literal["Component"]
    metadata: Metadata
    spec: Spec

    @classmethod
    def examine(cls, document: Any) -> None:
        if path := owned_path(document):
            raise Invalid(
                f"{path} is set by the platform, never by an intent",
                code="PLATFORM_OWNED_FIELD",
                field=path,
            )

    def intent(self) -> Intent:
        spec = self.spec
        return Intent(
            name=self.metadata.name,
            project=self.metadata.project,
            env=spec.env,
            type=spec.type,
            traits=spec.traits,
            training_job=TrainingJob(
                command=spec.command,
                environment=spec.environment,
                gpu_model=spec.gpu_model,
                gpu_count=spec.gpus,
                seconds_max=spec.seconds_max,
            ),
        )


def owned_path(value: Any, path: str = "") -> str:
    """Path of the first platform-owned name in a document, or ""."""
    if isinstance(value, list):
        found = (owned_path(item, f"{path}.{index}") for index, item in enumerate(value))
        return next(filter(None, found), "")
    if not isinstance(value, dict) or path == _FREE:
        return ""
    for name, item in value.items():
        here = f"{path}.{name}" if path else name
        if "".join(filter(str.isalnum, name)).lower() in _OWNED:
            return here[:200]
        if inside := owned_path(item, here):
            return inside
    return ""


_PATHS = {
    "name": "metadata.name",
    "project": "metadata.project",
    "env": "spec.env",
    "type": "spec.type",
    "traits": "spec.traits",
    "training_job": "spec",
    "training_job.command": "spec.command",
    "training_job.environment": "spec.environment",
    "training_job.gpu_model": "spec.gpuModel",
    "training_job.gpu_count": "spec.gpus",
    "training_job.seconds_max": "spec.secondsMax",
}


def document_path(error: ServiceError) -> ServiceError:
    """The same error, naming the field as the author wrote it."""
    field = error.details.get("field", "")
    head, _, variable = field.partition("environment.")
    if variable and head == "training_job.":
        path = f"spec.environment.{variable}"
    else:
        path = _PATHS.get(field, field)
    if path:
        error.details["field"] = path
    return error
