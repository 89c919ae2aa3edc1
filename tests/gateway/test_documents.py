"""Documents that authors and strangers send: what is read, and everything that is refused."""

import json
import time
import tracemalloc
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import Invalid
from gateway.http import bodies
from gateway.http.intents import IntentDocument, document_path
from gateway.http.routes_billing import TopUp
from gateway.strict import DEPTH_MAX, Malformed, json_document
from gateway.yaml_documents import BYTES_MAX, yaml_document

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
    ("text", "code"),
    [
        (b"", "MALFORMED"),
        (b"{", "MALFORMED"),
        (b"{'a': 1}", "MALFORMED"),
        (b'{"a": 1,}', "MALFORMED"),
        (b'{"a": 1} {"b": 2}', "MALFORMED"),
        (b"\xef\xbb\xbf{}", "MALFORMED"),
        (b'{"a": "\xff"}', "ENCODING"),
        ('{"a": 1}'.encode("utf-16"), "ENCODING"),
        (b'{"a": NaN}', "NUMBER"),
        (b'{"a": Infinity}', "NUMBER"),
        (b'{"a": -Infinity}', "NUMBER"),
        (b'{"a": 1e400}', "NUMBER"),
        (b'{"a": ' + b"9" * 5000 + b"}", "MALFORMED"),
        (b'{"a": 1, "a": 2}', "DUPLICATE_KEY"),
        (b'{"x": {"a": 1, "a": 1}}', "DUPLICATE_KEY"),
        (b'{"a": "\\u0000"}', "CHARACTER"),
        (b'{"a\\u0000": 1}', "CHARACTER"),
        (b'{"a": "\\ud800"}', "CHARACTER"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "DEPTH"),
        (b"[" * 100_000, "DEPTH"),
        (b'{"a":' * 100_000, "DEPTH"),
    ],
)
def test_json_that_two_readers_could_understand_differently_is_refused(
    text: bytes, code: str
) -> None:
    with pytest.raises(Malformed) as refusal:
        json_document(text)
    assert refusal.value.code == code


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
        ),
        max_leaves=10,
    )
)
def test_what_json_can_say_is_read_as_it_is(value: Any) -> None:
    text = json.dumps(value)
    if "\\u0000" not in text:
        assert json_document(text.encode()) == value


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(7)
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "MALFORMED"),
        ("a: [", "MALFORMED"),
        ("a:\n\t- b", "MALFORMED"),
        ("a: b\x01", "MALFORMED"),
        (BOMB, "YAML"),
        ("a: &x 1", "YAML"),
        ("a: *x", "YAML"),
        ("base: {a: 1}\nb: {<<: *base}", "YAML"),
        ("a: !!python/object/apply:os.system [ls]", "YAML"),
        ("a: !!str 1", "YAML"),
        ("!local {a: 1}", "YAML"),
        ("%YAML 1.1\n---\na: 1", "YAML"),
        ("a: 1\n---\nb: 2", "YAML"),
        ("? [a]\n: 1", "YAML"),
        ("a: 1\na: 2", "DUPLICATE_KEY"),
        ("x: {a: 1, a: 1}", "DUPLICATE_KEY"),
        ('"a": 1\na: 2', "DUPLICATE_KEY"),
        ('a: "\\0"', "CHARACTER"),
        ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "DEPTH"),
        ("[" * 100_000, "DEPTH"),
        ("a: " + "x" * BYTES_MAX, "TOO_LARGE"),
    ],
)
def test_yaml_beyond_plain_data_is_refused(text: str, code: str) -> None:
    with pytest.raises(Malformed) as refusal:
        yaml_document(text.encode())
    assert refusal.value.code == code


@pytest.mark.parametrize(
    "scalar",
    [
        "yes", "no", "on", "True", "012", "0x10", "1_000", "1e3", "+4", "4.0", "１２",
        "12:30:45", "2024-01-01", ".inf", ".nan",
    ],
)  # fmt: skip
def test_yaml_guesses_no_type(scalar: str) -> None:
    assert yaml_document(f"a: {scalar}".encode()) == {"a": scalar}


def test_yaml_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(Malformed) as refusal:
        yaml_document(b"a: \xff")
    assert refusal.value.code == "ENCODING"


@given(
    st.dictionaries(
        st.text("abc", min_size=1),
        st.integers(-(2**63), 2**63) | st.booleans() | st.lists(st.text("xyz ", min_size=1)),
    )
)
def test_plain_yaml_is_read_as_yaml_wrote_it(value: dict[str, Any]) -> None:
    assert yaml_document(yaml.safe_dump(value).encode()) == value


@pytest.mark.parametrize("data", [b"[" * 250_000, BOMB.encode(), b"{a: " * 60_000])
def test_a_hostile_document_costs_little(data: bytes) -> None:
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(Malformed):
        yaml_document(data)
    assert time.perf_counter() - started < 0.5
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    tracemalloc.stop()


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
