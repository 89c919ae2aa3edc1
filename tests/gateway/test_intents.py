"""Intents and the other bodies: what the platform takes from an author, field by field."""

import json
from typing import Any

import pytest

from chassis.errors import Invalid
from gateway.http import bodies
from gateway.http.intents import IntentDocument, document_path
from gateway.http.routes_billing import TopUp
from gateway.strict import json_document
from gateway.yaml_documents import yaml_document

TRAIN = """\
apiVersion: leasehold/v1
kind: Component
metadata: {name: train, project: default}
spec:
  type: training-job
  env: dev
  gpus: 4
  gpuModel: H100
  command: [python, -m, train, "--rate", "0.1"]
  environment: {SEED: "7"}
  secondsMax: 3600
  traits: [spot]
"""


def test_an_intent_reads_the_same_from_yaml_and_json() -> None:
    from_yaml = yaml_document(TRAIN.encode())
    assert json_document(json.dumps(from_yaml).encode()) == from_yaml
    intent = bodies.read(IntentDocument, from_yaml).intent()
    assert (intent.name, intent.project, intent.env, intent.type) == (
        "train", "default", "dev", "training-job",
    )  # fmt: skip
    job = intent.training_job
    assert list(job.command) == ["python", "-m", "train", "--rate", "0.1"]
    assert (job.gpu_count, job.gpu_model, job.seconds_max) == (4, "H100", 3600)
    assert (dict(job.environment), list(intent.traits)) == ({"SEED": "7"}, ["spot"])


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({"extra": 1}, "apiVersion, kind, metadata, spec"),
        ({"metadata": {"owner": "me"}}, "name, project"),
        (
            {"spec": {"gpu_model": "H100"}},
            "type, env, gpus, gpuModel, command, environment, secondsMax, traits",
        ),
    ],
)
def test_an_unknown_field_is_answered_with_those_that_are_known_there(
    changes: dict[str, Any], known: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        bodies.read(IntentDocument, changed(**changes))
    field = refusal.value.details["field"]
    assert refusal.value.message == f"{field}: unknown field; known here: {known}"


REFUSED_GPUS = [0, -1, 2**63, 10**30, 1.5, 4.0, True, "4", None, [], {}]


@pytest.mark.parametrize("gpus", REFUSED_GPUS)
def test_a_count_of_gpus_is_a_count(gpus: Any) -> None:
    assert refusal_of(spec={"gpus": gpus}) == ("FIELD", "spec.gpus")


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"apiVersion": "v1"}, "FIELD", "apiVersion"),
        ({"apiVersion": ...}, "REQUIRED_FIELD", "apiVersion"),
        ({"kind": "Pod"}, "FIELD", "kind"),
        ({"extra": 1}, "UNKNOWN_FIELD", "extra"),
        ({"metadata": "train"}, "FIELD", "metadata"),
        ({"metadata": {"name": "x" * 64}}, "FIELD", "metadata.name"),
        ({"metadata": {"name": "x" * 10_000}}, "FIELD", "metadata.name"),
        ({"metadata": {"name": "-a"}}, "FIELD", "metadata.name"),
        ({"metadata": {"name": "trаin"}}, "FIELD", "metadata.name"),  # a Cyrillic letter
        ({"metadata": {"name": "a\n"}}, "FIELD", "metadata.name"),
        ({"metadata": {"name": ...}}, "REQUIRED_FIELD", "metadata.name"),
        ({"metadata": {"owner": "me"}}, "UNKNOWN_FIELD", "metadata.owner"),
        ({"metadata": {"project": "A"}}, "FIELD", "metadata.project"),
        ({"spec": None}, "FIELD", "spec"),
        ({"spec": {"type": "vm"}}, "FIELD", "spec.type"),
        ({"spec": {"env": "test"}}, "FIELD", "spec.env"),
        ({"spec": {"gpu": 4}}, "UNKNOWN_FIELD", "spec.gpu"),
        ({"spec": {"gpu_model": "H100"}}, "UNKNOWN_FIELD", "spec.gpu_model"),
        ({"spec": {"gpus": ...}}, "REQUIRED_FIELD", "spec.gpus"),
        ({"spec": {"gpuModel": "h 100"}}, "FIELD", "spec.gpuModel"),
        ({"spec": {"command": []}}, "FIELD", "spec.command"),
        ({"spec": {"command": "python"}}, "FIELD", "spec.command"),
        ({"spec": {"command": ["sleep", 5]}}, "FIELD", "spec.command.1"),
        ({"spec": {"environment": {"SEED": 7}}}, "FIELD", "spec.environment.SEED"),
        ({"spec": {"environment": ["SEED=7"]}}, "FIELD", "spec.environment"),
        ({"spec": {"secondsMax": "1h"}}, "FIELD", "spec.secondsMax"),
        ({"spec": {"secondsMax": 0}}, "FIELD", "spec.secondsMax"),
        ({"spec": {"traits": "spot"}}, "FIELD", "spec.traits"),
    ],
)
def test_a_wrong_intent_is_refused_by_the_path_of_its_fault(
    changes: dict[str, Any], code: str, field: str
) -> None:
    assert refusal_of(**changes) == (code, field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"metadata": {"namespace": "kube-system"}}, "metadata.namespace"),
        ({"metadata": {"labels": {"cost/project": "x"}}}, "metadata.labels"),
        ({"metadata": {"annotations": {}}}, "metadata.annotations"),
        ({"spec": {"tolerations": []}}, "spec.tolerations"),
        ({"spec": {"priorityClassName": "high"}}, "spec.priorityClassName"),
        ({"spec": {"priority_class_name": "high"}}, "spec.priority_class_name"),
        ({"spec": {"PRIORITY": 9}}, "spec.PRIORITY"),
        ({"spec": {"hostNetwork": True}}, "spec.hostNetwork"),
        ({"spec": {"nodeSelector": {}}}, "spec.nodeSelector"),
        ({"spec": {"queue": "fast"}}, "spec.queue"),
        ({"spec": {"price": 0}}, "spec.price"),
        ({"spec": {"template": {"spec": {"volumes": []}}}}, "spec.template.spec.volumes"),
        ({"spec": {"sidecars": [{"privileged": True}]}}, "spec.sidecars.0.privileged"),
        ({"tenant": "ten_2"}, "tenant"),
        ({"status": {"state": "RUNNING"}}, "status"),
    ],
)
def test_what_the_platform_owns_is_refused_wherever_it_stands(
    changes: dict[str, Any], field: str
) -> None:
    assert refusal_of(**changes) == ("PLATFORM_OWNED_FIELD", field)


def test_an_authors_own_variables_may_have_any_name() -> None:
    document = changed(spec={"environment": {"QUEUE": "x", "status": "y"}})
    intent = bodies.read(IntentDocument, document).intent()
    assert dict(intent.training_job.environment) == {"QUEUE": "x", "status": "y"}


@pytest.mark.parametrize("document", [None, [], "text", 5, True])
def test_a_body_that_is_no_object_is_refused(document: Any) -> None:
    with pytest.raises(Invalid):
        bodies.read(IntentDocument, document)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("training_job.gpu_count", "spec.gpus"),
        ("training_job.environment.CUDA_X", "spec.environment.CUDA_X"),
        ("name", "metadata.name"),
        ("something_new", "something_new"),
    ],
)
def test_admissions_answer_names_the_field_that_the_author_wrote(said: str, field: str) -> None:
    assert document_path(Invalid("wrong", field=said)).details["field"] == field


@pytest.mark.parametrize(
    ("said", "nanos"),
    [
        ({"amount": "100"}, 100 * 10**9),
        ({"amount": "0.000000001"}, 1),
        ({"amount": "2.49"}, 2_490_000_000),
        ({"amount_nanos": "7"}, 7),
    ],
)
def test_money_is_read_exactly(said: dict[str, str], nanos: int) -> None:
    assert top_up(**said).nanos() == nanos


@pytest.mark.parametrize(
    "said",
    [
        {}, {"amount": "1", "amount_nanos": "1"}, {"amount": "0"}, {"amount": "-1"},
        {"amount": "1e3"}, {"amount": "1.0000000001"}, {"amount": "NaN"}, {"amount": "１"},
        {"amount": "1_0"}, {"amount": " 1"}, {"amount": "1,5"}, {"amount": "9999999999"},
        {"amount_nanos": "0"}, {"amount_nanos": "-5"}, {"amount_nanos": "1.5"},
    ],
)  # fmt: skip
def test_money_that_is_not_plain_is_refused(said: dict[str, str]) -> None:
    with pytest.raises(Invalid) as refusal:
        top_up(**said).nanos()
    assert refusal.value.code == "AMOUNT"


@pytest.mark.parametrize("amount", [100, 2.49, True, None])
def test_a_json_number_is_not_money(amount: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        top_up(amount=amount)
    assert refusal.value.details["field"] == "amount"


def changed(**changes: Any) -> dict[str, Any]:
    """The good intent with some values replaced; ``...`` removes one."""
    document = yaml_document(TRAIN.encode())
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(document.get(name), dict)
        document[name] = {**document[name], **value} if both else value
        if both:
            document[name] = {key: item for key, item in document[name].items() if item is not ...}
    return {name: value for name, value in document.items() if value is not ...}


def refusal_of(**changes: Any) -> tuple[str, str]:
    with pytest.raises(Invalid) as refusal:
        bodies.read(IntentDocument, changed(**changes))
    return refusal.value.code, refusal.value.details.get("field", "")


def top_up(**said: Any) -> TopUp:
    return bodies.read(TopUp, {"currency": "USD", "reference": "wire 1", **said})
