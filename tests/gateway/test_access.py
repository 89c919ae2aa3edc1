"""Who gets in: sign-up, tokens, revocation, suspension."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest

from chassis.clock import now
from gateway.policy import SIGN_UP_RATE
from gateway.tokens import Holder
from tests.gateway.rig import SECRET, Rig
from tests.gateway.test_tokens import HOSTILE

GRANT = {"grant_type": "client_credentials"}


def test_a_tenant_signs_up_and_its_secret_is_shown_once_and_kept_nowhere(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {"Idempotency-Key": "sign-up-1"}
    client = rig.client()
    first = client.post("/v1/tenants", json={"name": "shown-once"}, headers=headers).json()
    secret = first.pop("client_secret")
    again = client.post("/v1/tenants", json={"name": "shown-once"}, headers=headers).json()
    assert (again.pop("client_secret"), again) == ("", first)
    assert rig.token(first["client_id"], secret)
    assert secret not in caplog.text
    assert secret.encode() not in everything_stored(rig)


def test_strangers_who_choose_the_same_key_are_told_apart(rig: Rig) -> None:
    headers = {"Idempotency-Key": "same"}
    ids = {
        rig.client().post("/v1/tenants", json={"name": "x"}, headers=headers).json()["client_id"]
        for _ in range(2)
    }
    assert len(ids) == 2


def test_a_token_is_given_for_basic_or_form_credentials(rig: Rig) -> None:
    client = rig.client()
    basic = client.post("/oauth/token", data=GRANT, auth=("boss", SECRET))
    form = client.post("/oauth/token", data={**GRANT, "client_id": "boss", "client_secret": SECRET})
    assert (basic.status_code, form.status_code) == (200, 200)
    assert basic.json().keys() == {"access_token", "token_type", "expires_in"}
    assert basic.headers["cache-control"] == "no-store"


def test_the_published_keys_check_our_tokens(rig: Rig) -> None:
    answer = rig.client().get("/.well-known/jwks.json")
    assert "max-age=300" in answer.headers["cache-control"]
    token = rig.token("boss")
    kid = jwt.get_unverified_header(token)["kid"]
    key = next(key for key in jwt.PyJWKSet.from_dict(answer.json()).keys if key.key_id == kid)
    claims = jwt.decode(token, key, algorithms=["ES256"], audience="leasehold-api")
    assert (claims["role"], claims["tenant"]) == ("operator", "")
    assert all("d" not in key for key in answer.json()["keys"]), "no private part"


@pytest.mark.parametrize(
    ("request_", "status", "error"),
    [
        ({"data": GRANT, "auth": ("boss", "wrong")}, 401, "invalid_client"),
        ({"data": GRANT, "auth": ("nobody", SECRET)}, 401, "invalid_client"),
        ({"data": GRANT}, 401, "invalid_client"),
        ({"data": GRANT, "headers": {"Authorization": "Basic !"}}, 401, "invalid_client"),
        ({"data": GRANT, "headers": {"Authorization": "Bearer x"}}, 401, "invalid_client"),
        ({"data": {}, "auth": ("boss", SECRET)}, 400, "invalid_request"),
        ({"data": {"x": "1"}, "auth": ("boss", SECRET)}, 400, "invalid_request"),
        ({"data": {"grant_type": "password"}, "auth": ("boss", SECRET)}, 400,
         "unsupported_grant_type"),
        ({"json": GRANT, "auth": ("boss", SECRET)}, 400, "invalid_request"),
        ({"data": {**GRANT, "client_secret": SECRET}, "auth": ("boss", SECRET)}, 400,
         "invalid_request"),
        ({"data": {"grant_type": ["client_credentials"] * 2}, "auth": ("boss", SECRET)}, 400,
         "invalid_request"),
        ({"content": b"grant_type=%ff", "auth": ("boss", SECRET),
          "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, 400,
         "invalid_request"),
    ],
)  # fmt: skip
def test_a_wrong_request_for_a_token_is_refused(
    rig: Rig, request_: dict[str, Any], status: int, error: str
) -> None:
    answer = rig.client().post("/oauth/token", **request_)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert "wrong" not in answer.text.replace("wrong secret", "")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_token_opens_nothing(rig: Rig, name: str) -> None:
    token = HOSTILE[name](rig.keys.signing(now()))
    headers = [(b"authorization", b"Bearer " + token.encode() if token else b"Bearer")]
    answer = rig.client().get("/v1/balance", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["code"] in ("INVALID_TOKEN", "UNAUTHENTICATED")


@pytest.mark.parametrize("header", ["", "Bearer", "Basic eDp5", "bearer", "token x"])
def test_without_a_bearer_token_there_is_no_answer(rig: Rig, header: str) -> None:
    answer = rig.client().get("/v1/balance", headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")


def test_two_authorization_headers_are_one_too_many(rig: Rig) -> None:
    token = rig.token("boss")
    answer = rig.client().get("/v1/nodes", headers=[("Authorization", f"Bearer {token}")] * 2)
    assert (answer.status_code, answer.json()["code"]) == (400, "DUPLICATE_HEADER")


@pytest.mark.parametrize(
    "holder",
    [
        Holder("cli_unknown", "ten_1", "tenant_admin"),
        Holder("boss", "", "finance"),
        Holder("boss", "ten_1", "tenant_admin"),
    ],
)
def test_a_well_signed_token_for_somebody_else_is_refused(rig: Rig, holder: Holder) -> None:
    token = rig.tokens.issue(holder, now())
    assert rig.client(token).get("/v1/prices").status_code == 401


def test_a_credential_cannot_outgrow_the_role_it_has(rig: Rig) -> None:
    tenant_id, client = rig.tenant("viewer")
    (client_id,) = [
        one for one, role in rig.gateway.tenant(tenant_id).credentials.items() if role == "viewer"
    ]
    token = rig.tokens.issue(Holder(client_id, tenant_id, "tenant_admin"), now())
    assert rig.client(token).get("/v1/balance").status_code == 401
    assert client.get("/v1/balance").status_code == 200


def test_a_revoked_credential_is_refused_at_once(rig: Rig) -> None:
    _, admin = rig.tenant()
    issued = admin.post("/v1/credentials", json={"role": "user"}).json()
    user = rig.client(rig.token(issued["client_id"], issued["client_secret"]))
    assert user.get("/v1/balance").status_code == 200
    assert admin.delete(f"/v1/credentials/{issued['client_id']}").status_code == 204
    answer = user.get("/v1/balance")
    assert (answer.status_code, answer.json()["code"]) == (401, "CREDENTIAL_REVOKED")
    auth = (issued["client_id"], issued["client_secret"])
    refused = rig.client().post("/oauth/token", data=GRANT, auth=auth)
    assert refused.json()["error"] == "invalid_client"


def test_a_suspended_tenant_is_refused_at_once_and_comes_back(rig: Rig) -> None:
    tenant_id, admin = rig.tenant()
    boss = rig.staff()
    reason = {"reason": "unpaid"}
    suspended = boss.post(f"/v1/tenants/{tenant_id}/suspend", json=reason)
    assert suspended.json()["status"] == "suspended"
    answer = admin.get("/v1/balance")
    assert (answer.status_code, answer.json()["code"]) == (403, "TENANT_SUSPENDED")
    assert boss.post(f"/v1/tenants/{tenant_id}/resume").json()["status"] == "active"
    assert admin.get("/v1/balance").status_code == 200


def test_many_repetitions_at_once_have_one_effect_and_one_secret(rig: Rig) -> None:
    client, headers = rig.client(), {"Idempotency-Key": "race"}

    def sign_up(_: int) -> dict[str, Any]:
        return client.post("/v1/tenants", json={"name": "race"}, headers=headers).json()  # type: ignore[no-any-return]

    with ThreadPoolExecutor(SIGN_UP_RATE.burst) as pool:
        answers = list(pool.map(sign_up, range(SIGN_UP_RATE.burst)))
    assert len({answer["client_id"] for answer in answers}) == 1
    assert sum(answer["client_secret"] != "" for answer in answers) == 1


def everything_stored(rig: Rig) -> bytes:
    """Every row of every table."""
    with rig.store.pool.connection() as connection:
        tables = connection.execute(
            "select table_name from information_schema.tables where table_schema = 'gateway'"
        ).fetchall()
        assert tables
        rows = [
            connection.execute(f'select t.* from gateway."{name}" t'.encode()).fetchall()
            for (name,) in tables
        ]
    return repr(rows).encode()
