"""Who may not, or not again: tokens, other tenants' things and reused keys change nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from chassis import ids
from chassis.clock import SECOND, now
from gateway.signing_keys import SigningKeys
from gateway.tokens import Holder, Tokens
from leasehold.launcher.platform import Platform
from tests.story.books import Books
from tests.story.customer import SignUp
from tests.story.desk import GOOD, JSON, Desk, assert_problem, desk_of, text
from tests.story.heads import Heads
from tests.waiting import wait_for

pytestmark = pytest.mark.story

CONCURRENT = 50


@pytest.fixture(scope="module")
def desk(platform: Platform) -> Iterator[Desk]:
    with desk_of(platform, "bad-access") as desk:
        yield desk


@pytest.fixture(scope="module")
def heads(platform: Platform) -> Iterator[Heads]:
    heads = Heads(platform)
    yield heads
    heads.close()


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
