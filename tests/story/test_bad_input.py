"""What a client may get wrong over REST: each has its typed answer, and nothing has happened.

"Nothing" is taken literally: no service's log is longer than before.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from chassis import ids
from chassis.clock import SECOND, now
from gateway.signing_keys import SigningKeys
from gateway.tokens import Holder, Tokens
from leasehold.launcher.platform import Platform
from tests.story.books import Books
from tests.story.customer import Customer, SignUp, funded_customer, operator
from tests.story.heads import Heads
from tests.waiting import wait_for

pytestmark = pytest.mark.story

JSON, YAML = "application/json", "application/yaml"
CONCURRENT = 50


@dataclass
class Desk:
    """A tenant of its own, and a client that sends whatever it is told to."""

    customer: Customer
    http: httpx.Client
    client_id: str
    client_secret: str

    def token(self) -> str:
        credential = (self.client_id, self.client_secret)
        form = {"grant_type": "client_credentials"}
        answer = self.http.post("/oauth/token", data=form, auth=credential)
        return str(answer.json()["access_token"])

    def send(
        self,
        body: bytes,
        kind: str = JSON,
        *,
        token: str = "",
        path: str = "/v1/workloads",
        **headers: str,
    ) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Authorization": f"Bearer {token or self.token()}", "Content-Type": kind}
        return self.http.post(path, content=body, headers=named)


@pytest.fixture(scope="module")
def desk(platform: Platform) -> Iterator[Desk]:
    customer = funded_customer(platform, "bad-input")
    issued = customer.post("/v1/credentials", {"role": "admin"})
    url = platform.addresses()["gateway_url"]
    with httpx.Client(base_url=url, timeout=10, trust_env=False) as http:
        yield Desk(customer, http, issued["client_id"], issued["client_secret"])
    customer.close()


@pytest.fixture(scope="module")
def heads(platform: Platform) -> Iterator[Heads]:
    heads = Heads(platform)
    yield heads
    heads.close()


def document(**spec: Any) -> dict[str, Any]:
    """A good intent, with some of its spec changed."""
    return {
        "apiVersion": "leasehold/v1",
        "kind": "Component",
        "metadata": {"name": "bad-input", "project": "default"},
        "spec": {
            "type": "training-job",
            "gpus": 1,
            "gpuModel": "H100",
            "command": ["true"],
            "secondsMax": 60,
            **spec,
        },
    }


def text(**spec: Any) -> bytes:
    return json.dumps(document(**spec)).encode()


GOOD = text()
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


def test_a_token_that_is_not_ours_opens_nothing(
    platform: Platform, desk: Desk, heads: Heads
) -> None:
    keys = SigningKeys(platform.state / "token_keys")
    keys.rotate(now())
    tokens = Tokens(keys, "leasehold")
    me = Holder(desk.client_id, desk.customer.tenant_id, "tenant_admin")
    genuine = desk.token()
    claims = jwt.decode(genuine, options={"verify_signature": False})
    header = {"kid": jwt.get_unverified_header(genuine)["kid"], "typ": "at+jwt"}
    thief = ec.generate_private_key(ec.SECP256R1())
    promoted = Holder(desk.client_id, "", "operator")
    stranger = Holder(desk.client_id, "ten_other", "tenant_admin")
    wrong = {
        "expired": tokens.issue(me, now() - 3600 * SECOND),
        "from the future": tokens.issue(me, now() + 3600 * SECOND),
        "signed by a thief": jwt.encode(claims, thief, "ES256", headers=header),
        "not signed": jwt.encode(claims, None, "none", headers=header),
        "signed with the public key": jwt.encode(claims, "a" * 64, "HS256", headers=header),
        "cut": genuine[:-2],
        "for another role": tokens.issue(promoted, now()),
        "for another tenant": tokens.issue(stranger, now()),
        "nonsense": "nonsense",
    }
    with heads.unchanged():
        for why, token in wrong.items():
            answer = desk.send(GOOD, token=token)
            assert answer.json()["code"] == "INVALID_TOKEN", why
            assert_problem(answer, 401, "INVALID_TOKEN")
            assert "www-authenticate" in answer.headers
        nobody = desk.http.post("/v1/workloads", content=GOOD, headers={"Content-Type": JSON})
        assert_problem(nobody, 401, "UNAUTHENTICATED")


def test_a_revoked_credential_ends_its_tokens_at_once(desk: Desk, heads: Heads) -> None:
    issued = desk.customer.post("/v1/credentials", {"role": "user"})
    revoked = Desk(desk.customer, desk.http, issued["client_id"], issued["client_secret"])
    token = revoked.token()
    assert desk.customer.send("DELETE", f"/v1/credentials/{issued['client_id']}").is_success
    with heads.unchanged():
        assert_problem(desk.send(GOOD, token=token), 401, "CREDENTIAL_REVOKED")


def test_the_things_of_another_tenant_are_not_there(
    sign_up: SignUp, desk: Desk, heads: Heads
) -> None:
    owner = sign_up("owner")
    workload_id = owner.submit("private", "true")
    wait_for(lambda: owner.has_ended(workload_id), seconds=30, what="the end of the job")
    lease_id = owner.workload(workload_id)["lease_id"]
    heads.at_rest()
    invoice_id = owner.post("/v1/invoices")["invoice_id"]
    other = desk.customer
    with heads.unchanged():
        for method, path in (
            ("GET", "/v1/workloads/{}"),
            ("GET", "/v1/workloads/{}/explain"),
            ("GET", "/v1/workloads/{}/logs"),
            ("POST", "/v1/workloads/{}/stop"),
            ("GET", "/v1/leases/{}"),
            ("GET", "/v1/leases/{}/trail"),
            ("GET", "/v1/invoices/{}"),
            ("GET", "/v1/tenants/{}"),
            ("GET", "/v1/costs?tenant={}"),
        ):
            kind = path.split("/")[2]
            theirs = {
                "workloads": workload_id,
                "leases": lease_id,
                "invoices": invoice_id,
            }.get(kind, owner.tenant_id)
            nobodys = f"{theirs[:-4]}0000"
            found = other.send(method, path.format(theirs))
            assert_problem(found, 404, other.send(method, path.format(nobodys)).json()["code"])
            assert owner.tenant_id not in found.text.replace(theirs, "")


def test_a_key_belongs_to_one_body(desk: Desk, heads: Heads) -> None:
    key = ids.new("key")
    first = desk.send(GOOD, idempotency_key=key)
    assert first.status_code == 201
    workload_id = first.json()["workload_id"]
    wait_for(lambda: desk.customer.has_ended(workload_id), seconds=30, what="the end of the job")
    with heads.unchanged():
        assert desk.send(GOOD, idempotency_key=key).json() == first.json()
        assert_problem(desk.send(text(gpus=2), idempotency_key=key), 422, "IDEMPOTENCY_CONFLICT")
        assert_problem(desk.send(GOOD, idempotency_key="k" * 256), 400, "IDEMPOTENCY_KEY")


def test_many_requests_at_once_with_one_key_have_one_effect(
    desk: Desk, heads: Heads, books: Books
) -> None:
    key, token = ids.new("key"), desk.token()
    heads.at_rest()
    with ThreadPoolExecutor(CONCURRENT) as pool:
        sent = [
            pool.submit(desk.send, GOOD, token=token, idempotency_key=key)
            for _ in range(CONCURRENT)
        ]
    answers = [one.result() for one in sent]
    assert {answer.status_code for answer in answers} == {201}
    (workload_id,) = {answer.json()["workload_id"] for answer in answers}
    submitted = [
        event
        for event in books.events("admission", desk.customer.tenant_id)
        if event["meta"]["topic"] == "admission.workload.submitted"
    ]
    assert [event["meta"]["aggregate_id"] for event in submitted].count(workload_id) == 1
    assert submitted[-1]["meta"]["aggregate_id"] == workload_id
    wait_for(lambda: desk.customer.has_ended(workload_id), seconds=30, what="the end of the job")


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert problem["instance"] == answer.headers["x-request-id"]
    return problem
