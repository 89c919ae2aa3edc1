"""The renderer, tested as a compiler is: golden files, and a must-reject case for every rule.

A golden file that has to change means that unchanged intents render differently: give the type a
new version instead.
"""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis import canonical
from chassis.errors import Invalid
from placement.policy import Release
from placement.render import COMPONENT_TYPES, Cell, release
from tests.placement.fleet import intent

GOLDEN = Path(__file__).parent / "golden"
CELL = Cell("lse_01j8_1", "ten_acme", "wl_01j8", ("GPU-aaaa", "GPU-bbbb"))

INTENTS: dict[str, dict[str, Any]] = {
    "training-job.1.local": intent(gpu_count=2),
    "training-job.1.local.plain": {
        **intent(command=["true"], environment={}),
        "env": "dev",
        "project": "vision",
    },
}


@pytest.mark.parametrize("name", sorted(INTENTS))
def test_an_intent_renders_to_the_same_bytes_for_ever(name: str) -> None:
    golden = (GOLDEN / f"{name}.json").read_bytes()
    rendered = release(INTENTS[name], CELL)
    assert rendered.manifest.encode() == golden
    assert rendered.sha256 == hashlib.sha256(golden).hexdigest()


def test_every_type_has_a_golden_file() -> None:
    rendered = {tuple(path.name.split(".")[:3]) for path in GOLDEN.iterdir()}
    assert rendered == set(COMPONENT_TYPES)


def test_a_release_says_what_it_was_made_from() -> None:
    rendered = release(intent(seconds_max=90), CELL)
    assert (rendered.project, rendered.env) == ("nlp", "prod")
    assert (rendered.type_version, rendered.seconds_max) == ("training-job/1", 90)


def test_a_version_can_be_asked_for_by_name() -> None:
    named = {**intent(), "type": "training-job/1"}
    assert release(named, CELL) == release(intent(), CELL)


def test_attribution_and_hardware_come_from_the_platform() -> None:
    manifest = canonical.loads(release(intent(), CELL).manifest.encode())
    assert manifest["metadata"]["namespace"] == "nlp-prod"
    assert manifest["metadata"]["labels"] == {
        "cost/project": "nlp",
        "cost/tenant": "ten_acme",
        "leasehold/lease": "lse_01j8_1",
        "leasehold/queue": "nlp-queue",
        "leasehold/workload": "wl_01j8",
    }
    assert manifest["spec"]["environment"]["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa,GPU-bbbb"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"type": "warehouse"}, "TYPE"),
        ({"type": "training-job/2"}, "TYPE"),
        ({"type": ""}, "TYPE"),
        ({"name": ""}, "NAME"),
        ({"project": ""}, "PROJECT"),
        ({"env": ""}, "ENV"),
        ({"traits": ["root-on-host"]}, "TRAIT"),
        ({"namespace": "vision-prod"}, "PLATFORM_OWNED"),
        ({"labels": {"cost/project": "vision"}}, "PLATFORM_OWNED"),
        ({"tolerations": [{"operator": "Exists"}]}, "PLATFORM_OWNED"),
        ({"priorityClassName": "system"}, "PLATFORM_OWNED"),
        ({"training_job": {}}, "COMMAND"),
    ],
)
def test_an_intent_outside_of_policy_is_rejected(bad: dict[str, Any], code: str) -> None:
    assert rejected({**intent(), **bad}) == code


@pytest.mark.parametrize(
    "knobs",
    [
        {"hostNetwork": True},
        {"gpus": [7]},
        {"environment": {"CUDA_VISIBLE_DEVICES": "all"}},
        {"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        {"environment": {"LEASEHOLD_LEASE_ID": "lse_other"}},
        {"environment": {"LD_PRELOAD": "./mine.so"}},
        {"environment": {"LD_AUDIT": "./mine.so"}},
    ],
)
def test_a_platform_owned_knob_is_rejected(knobs: dict[str, Any]) -> None:
    assert rejected(intent(**knobs)) == "PLATFORM_OWNED"


NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,12}", fullmatch=True)


@given(st.dictionaries(NAMES, st.text(max_size=8), max_size=6), st.lists(st.text(), min_size=1))
def test_rendering_is_deterministic_and_keeps_what_the_author_may_say(
    environment: dict[str, str], command: list[str]
) -> None:
    wanted = intent(environment=environment, command=command)
    first, again = attempt(wanted), attempt(wanted)
    assert first == again
    if isinstance(first, Release):
        spec = canonical.loads(first.manifest.encode())["spec"]
        assert spec["command"] == command
        assert environment.items() <= spec["environment"].items()


def attempt(wanted: dict[str, Any]) -> Release | str:
    try:
        return release(wanted, CELL)
    except Invalid as error:
        return error.code


def rejected(wanted: dict[str, Any]) -> str:
    with pytest.raises(Invalid) as error:
        release(wanted, CELL)
    return error.value.code
