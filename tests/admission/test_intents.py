"""What an author may write: every rule with a document it must reject."""

from typing import Any

import pytest

from admission.intents import SECONDS_MAX, Request, intent_problem, request_of
from tests.admission.stage import intent

LONG = "x" * 64


# One row per rule, in the order the rules are applied.
@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"name": ""}, "NAME", "name"),
        ({"name": "-train"}, "NAME", "name"),
        ({"name": "Train"}, "NAME", "name"),
        ({"name": "train\n"}, "NAME", "name"),
        ({"name": LONG}, "NAME", "name"),
        ({"project": "../other"}, "PROJECT", "project"),
        ({"project": ""}, "PROJECT", "project"),
        ({"env": "production"}, "ENV", "env"),
        ({"type": "virtual-machine"}, "UNKNOWN_TYPE", "type"),
        ({"type": ""}, "UNKNOWN_TYPE", "type"),
        ({"training_job": None}, "TRAINING_JOB", "training_job"),
        ({"traits": ["fast", "fast"]}, "TRAITS", "traits"),
        ({"traits": ["Not A Name"]}, "TRAITS", "traits"),
        ({"traits": [f"t{n}" for n in range(17)]}, "TRAITS", "traits"),
        # Breaks several rules: the first one is told.
        ({"traits": ["a", "a"], "env": "moon", "name": "UP"}, "NAME", "name"),
        ({"type": "notebook", "training_job": None}, "UNKNOWN_TYPE", "type"),
    ],
)
def test_a_document_is_refused_by_the_first_rule_it_breaks(
    change: dict[str, Any], code: str, field: str
) -> None:
    problem = intent_problem(intent() | change)
    assert problem
    assert (problem.code, problem.field) == (code, field)


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"command": []}, "COMMAND", "command"),
        ({"command": [""]}, "COMMAND", "command"),
        ({"command": ["a"] * 257}, "COMMAND_SIZE", "command"),
        ({"command": ["python", "é" * 16_400]}, "COMMAND_SIZE", "command"),
        ({"command": ["python", "a\0b"]}, "COMMAND", "command"),
        ({"environment": {f"A{n}": "" for n in range(65)}}, "ENVIRONMENT_SIZE", "environment"),
        ({"environment": {"1A": ""}}, "ENVIRONMENT_NAME", "environment"),
        ({"environment": {"A=B": ""}}, "ENVIRONMENT_NAME", "environment"),
        ({"environment": {"A": "x" * 4097}}, "ENVIRONMENT_VALUE", "environment.A"),
        ({"environment": {"A": "x\0"}}, "ENVIRONMENT_VALUE", "environment.A"),
        ({"gpu_model": ""}, "GPU_MODEL", "gpu_model"),
        ({"gpu_model": "H100; drop"}, "GPU_MODEL", "gpu_model"),
        ({"gpu_count": 0}, "GPU_COUNT", "gpu_count"),
        ({"gpu_count": -1}, "GPU_COUNT", "gpu_count"),
        ({"gpu_count": 100_001}, "GPU_COUNT", "gpu_count"),
        ({"seconds_max": 0}, "SECONDS_MAX", "seconds_max"),
        ({"seconds_max": SECONDS_MAX + 1}, "SECONDS_MAX", "seconds_max"),
        ({"command": [], "gpu_count": 0}, "COMMAND", "command"),
    ],
)
def test_a_job_is_refused_by_the_first_rule_it_breaks(
    change: dict[str, Any], code: str, field: str
) -> None:
    problem = intent_problem(intent(**change))
    assert problem
    assert (problem.code, problem.field) == (code, f"training_job.{field}")


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "LD_AUDIT",
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_",
        "LEASEHOLD_TENANT",
    ],
)
def test_a_name_of_the_platform_or_the_driver_is_refused(name: str) -> None:
    problem = intent_problem(intent(environment={name: "all"}))
    assert problem
    assert (problem.code, problem.field) == (
        "PLATFORM_OWNED",
        f"training_job.environment.{name}",
    )


@pytest.mark.parametrize(
    "job",
    [
        {"gpu_count": 100_000, "seconds_max": SECONDS_MAX},
        {"environment": {"LD_LIBRARY_PATH": "/opt/lib", "cuda_like": "1", "MY_CUDA_": "x" * 4096}},
        {"command": ["a"] * 256},
        {"gpu_model": "H100-80GB"},
    ],
)
def test_what_is_at_the_edge_of_a_rule_is_allowed(job: dict[str, Any]) -> None:
    assert intent_problem(intent(**job)) is None


def test_an_intent_asks_for_gpus_time_and_traits() -> None:
    document = intent(gpu_count=4, seconds_max=60) | {"traits": ["reserved"]}
    assert request_of(document) == Request("H100", 4, 60, ("reserved",))
