"""What an author may write in an intent. Pure: a document in, its first problem out.

The order of the checks is part of the API: authors see the first problem and fix it. Names that
the platform or the driver own are refused here, because a job that sets them could reach GPUs
it was not leased.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DAY_SECONDS = 24 * 60 * 60
SECONDS_MAX = 30 * DAY_SECONDS
GPU_COUNT_MAX = 100_000
ARGUMENTS_MAX = 256
COMMAND_BYTES_MAX = 32 * 1024
VARIABLES_MAX = 64
VALUE_BYTES_MAX = 4 * 1024
TRAITS_MAX = 16
ENVIRONMENTS = ("dev", "staging", "prod")
TYPES = ("training-job",)

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_OWNED_VARIABLE = re.compile(r"LD_PRELOAD|LD_AUDIT|(NVIDIA|CUDA|LEASEHOLD)_.*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where, and under which stable code."""

    code: str
    message: str
    field: str = ""
    numbers: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What an intent asks of quota, capacity and money."""

    gpu_model: str
    gpu_count: int
    seconds_max: int
    traits: tuple[str, ...] = ()


def request_of(intent: Mapping[str, Any]) -> Request:
    job = intent["training_job"]
    return Request(job["gpu_model"], job["gpu_count"], job["seconds_max"], tuple(intent["traits"]))


def intent_problem(intent: Mapping[str, Any]) -> Problem | None:
    """The first thing wrong with the document itself, whoever submits it."""
    return next(_problems(intent), None)


def is_model(text: str) -> bool:
    return _MODEL.fullmatch(text) is not None


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _problems(intent: Mapping[str, Any]) -> Iterator[Problem]:
    for field in ("name", "project"):
        if not is_name(intent[field]):
            rule = "lower-case letters, digits and dashes, at most 63, no dash in front"
            yield Problem(field.upper(), f"{field} must be {rule}", field)
    if intent["env"] not in ENVIRONMENTS:
        yield Problem("ENV", f"env must be one of {', '.join(ENVIRONMENTS)}", "env")
    if intent["type"] not in TYPES:
        known = ", ".join(TYPES)
        yield Problem("UNKNOWN_TYPE", f"type must be one of {known}", "type")
    if intent["training_job"] is None:
        yield Problem("TRAINING_JOB", "a training-job needs training_job", "training_job")
    else:
        yield from _job_problems(intent["training_job"])
    traits = intent["traits"]
    if len(traits) > TRAITS_MAX or len(set(traits)) < len(traits) or not all(map(is_name, traits)):
        yield Problem("TRAITS", f"traits must be at most {TRAITS_MAX} different names", "traits")


def _job_problems(job: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _command_problems(job["command"])
    yield from _environment_problems(job["environment"])
    if not is_model(job["gpu_model"]):
        message = "gpu_model must be a model of the catalog, such as H100"
        yield Problem("GPU_MODEL", message, "training_job.gpu_model")
    for field, most in (("gpu_count", GPU_COUNT_MAX), ("seconds_max", SECONDS_MAX)):
        if not 1 <= job[field] <= most:
            message = f"{field} must be from 1 to {most}"
            yield Problem(field.upper(), message, f"training_job.{field}")


def _command_problems(command: list[str]) -> Iterator[Problem]:
    field = "training_job.command"
    if not command or not command[0]:
        yield Problem("COMMAND", "command must name a program", field)
    if len(command) > ARGUMENTS_MAX or _bytes(command) > COMMAND_BYTES_MAX:
        most = f"{ARGUMENTS_MAX} arguments and {COMMAND_BYTES_MAX} bytes"
        yield Problem("COMMAND_SIZE", f"command must have at most {most}", field)
    if any("\0" in argument for argument in command):
        yield Problem("COMMAND", "command must not contain a zero byte", field)


def _environment_problems(environment: Mapping[str, str]) -> Iterator[Problem]:
    field = "training_job.environment"
    if len(environment) > VARIABLES_MAX:
        message = f"environment must have at most {VARIABLES_MAX} names"
        yield Problem("ENVIRONMENT_SIZE", message, field)
    for name, value in sorted(environment.items()):
        if not _VARIABLE.fullmatch(name):
            yield Problem("ENVIRONMENT_NAME", f"{name[:80]!r} is no environment name", field)
        elif _OWNED_VARIABLE.fullmatch(name):
            message = f"{name} is set by the platform or the driver, never by an intent"
            yield Problem("PLATFORM_OWNED", message, f"{field}.{name}")
        if "\0" in value or _bytes([value]) > VALUE_BYTES_MAX:
            message = (
                f"the value of {name[:80]} must have at most {VALUE_BYTES_MAX} bytes, none zero"
            )
            yield Problem("ENVIRONMENT_VALUE", message, f"{field}.{name[:80]}")


def _bytes(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)
