"""What an author may get wrong in a document: each has its typed answer, and nothing has happened.

"Nothing" is taken literally: no service's log is longer than before.
"""

import json
from collections.abc import Iterator

import pytest

from leasehold.launcher.platform import Platform
from tests.story.customer import operator
from tests.story.desk import GOOD, JSON, YAML, Desk, assert_problem, desk_of, document, text
from tests.story.heads import Heads

pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def desk(platform: Platform) -> Iterator[Desk]:
    with desk_of(platform, "bad-input") as desk:
        yield desk


@pytest.fixture(scope="module")
def heads(platform: Platform) -> Iterator[Heads]:
    heads = Heads(platform)
    yield heads
    heads.close()


GOOD_YAML = b"""apiVersion: leasehold/v1
kind: Component
metadata: {name: bad-input}
spec: {type: training-job, gpus: 1, gpuModel: H100, command: ["true"], secondsMax: 60}
"""
BOMB = b"".join(
    b"%c: &%c [%s]\n" % (name, name, b", ".join([b"*%c" % (name - 1) if name > 97 else b"lol"] * 9))
    for name in range(97, 106)
)

UNREADABLE = {
    "nothing": (JSON, b"", 400, "MALFORMED"),
    "half of it": (JSON, GOOD[:-1], 400, "MALFORMED"),
    "two documents": (JSON, GOOD + GOOD, 400, "MALFORMED"),
    "not UTF-8": (JSON, b'{"kind": "\xff"}', 400, "ENCODING"),
    "NaN": (JSON, GOOD.replace(b'"gpus": 1', b'"gpus": NaN'), 400, "NUMBER"),
    "infinity": (JSON, GOOD.replace(b'"gpus": 1', b'"gpus": 1e999'), 400, "NUMBER"),
    "a number of 5000 digits": (JSON, text().replace(b"60", b"6" * 5000), 400, "MALFORMED"),
    "a repeated key": (JSON, GOOD.replace(b'"gpus"', b'"gpus": 8, "gpus"'), 400, "DUPLICATE_KEY"),
    "deep nesting": (JSON, b"[" * 100_000 + b"]" * 100_000, 400, "DEPTH"),
    "half a surrogate": (JSON, GOOD.replace(b"true", b"\\ud800"), 400, "CHARACTER"),
    "two megabytes": (JSON, b'"' + b"a" * 2_000_000 + b'"', 413, "TOO_LARGE"),
    "plain text": ("text/plain", GOOD, 415, "MEDIA_TYPE"),
    "a form": ("application/x-www-form-urlencoded", b"gpus=1", 415, "MEDIA_TYPE"),
    "another charset": (f"{JSON}; charset=latin-1", GOOD, 415, "MEDIA_TYPE"),
    "a YAML bomb": (YAML, BOMB, 400, "YAML"),
    "a YAML alias": (YAML, GOOD_YAML + b"x: &a 1\ny: *a\n", 400, "YAML"),
    "a YAML tag": (YAML, b'!!python/object/apply:os.system ["true"]', 400, "YAML"),
    "a repeated YAML key": (YAML, GOOD_YAML + b"kind: Component\n", 400, "DUPLICATE_KEY"),
    "two YAML documents": (YAML, GOOD_YAML + b"---\n" + GOOD_YAML, 400, "YAML"),
    "not an object": (JSON, b"[]", 400, "FIELD"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_refused_by_its_kind(desk: Desk, heads: Heads, case: str) -> None:
    kind, body, status, code = UNREADABLE[case]
    with heads.unchanged():
        assert_problem(desk.send(body, kind), status, code)


WRONG = {
    "an unknown field": (document(gpu=4), "UNKNOWN_FIELD", "spec.gpu"),
    "an unknown field on top": ({**document(), "replicas": 2}, "UNKNOWN_FIELD", "replicas"),
    "a missing field": ({"apiVersion": "leasehold/v1"}, "REQUIRED_FIELD", "kind"),
    "true as a number": (document(gpus=True), "FIELD", "spec.gpus"),
    "text as a number": (document(gpus="4"), "FIELD", "spec.gpus"),
    "a fraction": (document(gpus=1.5), "FIELD", "spec.gpus"),
    "no GPU": (document(gpus=0), "FIELD", "spec.gpus"),
    "less than no GPU": (document(gpus=-1), "FIELD", "spec.gpus"),
    "more than an integer holds": (document(gpus=2**63), "FIELD", "spec.gpus"),
    "a project that is not there": (
        {**document(), "metadata": {"name": "lost", "project": "nowhere"}},
        "UNKNOWN_PROJECT",
        "metadata.project",
    ),
    "somebody else's type": (document(type="vm"), "FIELD", "spec.type"),
    "the driver's variable": (
        document(environment={"CUDA_VISIBLE_DEVICES": "0,1,2,3"}),
        "PLATFORM_OWNED",
        "spec.environment.CUDA_VISIBLE_DEVICES",
    ),
    **{
        f"platform-owned {name}": (
            document(**{name: "mine"}),
            "PLATFORM_OWNED_FIELD",
            f"spec.{name}",
        )
        for name in ("tenant", "lease_id", "priority", "price", "nodeSelector", "fencing-token")
    },
    "platform-owned labels": (
        {**document(), "metadata": {"name": "me", "labels": {"cost-center": "theirs"}}},
        "PLATFORM_OWNED_FIELD",
        "metadata.labels",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_an_intent_may_not_say_is_refused_by_its_path(
    desk: Desk, heads: Heads, case: str
) -> None:
    intent, code, field = WRONG[case]
    with heads.unchanged():
        problem = assert_problem(desk.send(json.dumps(intent).encode()), 400, code)
    assert problem["field"] == field


def test_money_is_never_a_float_and_never_negative(
    platform: Platform, desk: Desk, heads: Heads
) -> None:
    staff = operator(platform)
    path = f"/v1/tenants/{desk.customer.tenant_id}/top-ups"
    with heads.unchanged():
        for amount, code in ((1.5, "FIELD"), ("-1", "AMOUNT"), ("1e3", "AMOUNT"), ("0", "AMOUNT")):
            body = {"amount": amount, "currency": "USD", "reference": "wire"}
            assert_problem(staff.send("POST", path, body), 400, code)
    staff.close()
