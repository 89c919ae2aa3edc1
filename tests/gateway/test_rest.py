"""The API over real HTTP and gRPC: what it answers, and how it says no."""

import pytest

from gateway.http.incoming import BODY_BYTES_MAX
from tests.gateway.rig import Rig
from tests.gateway.test_intents import TRAIN

JSON, YAML = {"Content-Type": "application/json"}, {"Content-Type": "application/yaml"}
PROBLEM = {"type", "title", "status", "detail", "instance", "code"}


def test_an_intent_is_submitted_in_the_tenants_name_and_nobody_elses(rig: Rig) -> None:
    tenant_id, client = rig.tenant("user")
    headers = {
        **YAML,
        "Idempotency-Key": "k1",
        "x-leasehold-role": "operator",
        "x-leasehold-tenant": "ten_other",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }
    answer = client.post("/v1/workloads", content=TRAIN, headers=headers)
    assert answer.status_code == 201
    workload = answer.json()
    assert answer.headers["location"] == f"/v1/workloads/{workload['workload_id']}"
    assert (workload["state"], workload["reason"]) == ("QUEUED", "QUOTA")
    assert workload["intent"]["training_job"]["gpu_count"] == 4
    sent = rig.standins.metadata.seen["SubmitWorkload"]
    assert (sent["x-leasehold-role"], sent["x-leasehold-tenant"]) == ("tenant_user", tenant_id)
    assert sent["x-leasehold-actor"].startswith(f"tenant:{tenant_id}/cli_")
    assert sent["idempotency-key"] == "k1"
    assert sent["x-correlation-id"] == answer.headers["x-request-id"]
    assert "4bf92f3577b34da6a3ce929d0e0e4736" in sent["traceparent"]
    assert client.get(answer.headers["location"]).json() == workload


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"{", JSON, 400, "MALFORMED"),
        (b"", JSON, 400, "MALFORMED"),
        (b'{"a": NaN}', JSON, 400, "NUMBER"),
        (b'{"a": 1, "a": 2}', JSON, 400, "DUPLICATE_KEY"),
        (b"[" * 100_000, JSON, 400, "DEPTH"),
        (b'{"a": "\xff"}', JSON, 400, "ENCODING"),
        (b" " * (BODY_BYTES_MAX + 1), JSON, 413, "TOO_LARGE"),
        (b"a: &x [*x]", YAML, 400, "YAML"),
        (b"a: " + b"x" * 300_000, YAML, 400, "TOO_LARGE"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "MEDIA_TYPE"),
        (b"{}", {"Content-Type": "application/json; charset=latin-1"}, 415, "MEDIA_TYPE"),
        (b"{}", {}, 415, "MEDIA_TYPE"),
        (b"{}", {**JSON, "Content-Encoding": "gzip"}, 415, "CONTENT_ENCODING"),
        (b"{}", {**JSON, "Idempotency-Key": ""}, 400, "IDEMPOTENCY_KEY"),
        (b"{}", {**JSON, "Idempotency-Key": "x" * 256}, 400, "IDEMPOTENCY_KEY"),
        (b"{}", {**JSON, "Idempotency-Key": "a b"}, 400, "IDEMPOTENCY_KEY"),
        (TRAIN.replace("gpus: 4", "gpus: true").encode(), YAML, 400, "FIELD"),
        (TRAIN.replace("gpus: 4", "gpu: 4").encode(), YAML, 400, "UNKNOWN_FIELD"),
        (TRAIN.replace("gpus: 4", "priority: 4").encode(), YAML, 400, "PLATFORM_OWNED_FIELD"),
        (TRAIN.replace("project: default", "project: other").encode(), YAML, 400,
         "UNKNOWN_PROJECT"),
        (TRAIN.replace("name: train", "name: owned").encode(), YAML, 400, "PLATFORM_OWNED"),
        (TRAIN.replace("name: train", "name: never").encode(), YAML, 409, "NEVER_FITS"),
    ],
)  # fmt: skip
def test_a_bad_submission_is_refused_with_a_problem_and_changes_nothing(
    rig: Rig, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    _, client = rig.tenant()
    answer = client.post("/v1/workloads", content=content, headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem.keys() >= PROBLEM
    assert problem["instance"] == answer.headers["x-request-id"]
    assert client.get("/v1/workloads").json()["workloads"] == []


def test_a_refusal_tells_the_field_and_the_numbers(rig: Rig) -> None:
    _, client = rig.tenant()
    owned = client.post(
        "/v1/workloads", content=TRAIN.replace("name: train", "name: owned"), headers=YAML
    )
    assert owned.json()["field"] == "spec.environment.LD_PRELOAD"
    never = client.post(
        "/v1/workloads", content=TRAIN.replace("name: train", "name: never"), headers=YAML
    )
    assert never.json()["details"] == {"gpus_largest": "8"}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/workloads?page_size=0", "PARAMETER"),
        ("/v1/workloads?page_size=-1", "PARAMETER"),
        ("/v1/workloads?page_size=1000000000", "PARAMETER"),
        ("/v1/workloads?page_size=1&page_size=2", "DUPLICATE_PARAMETER"),
        ("/v1/workloads?page_token=x", "CURSOR"),
        ("/v1/workloads?page_token=TGlzdExlYXNlczox", "CURSOR"),  # a cursor of the leases
        ("/v1/workloads?page_token=%00", "PARAMETER"),
        ("/v1/workloads?filter=.*", "UNKNOWN_PARAMETER"),
        ("/v1/balance?tenant=TEN_1", "PARAMETER"),
    ],
)
def test_a_wrong_parameter_is_refused(rig: Rig, path: str, code: str) -> None:
    _, client = rig.tenant()
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/workloads/WL_1", "/v1/workloads/wl_%00", "/v1/workloads/..%2f..%2fetc",
        "/v1/workloads/wl_1%0a", "/v1/workloads/ｗl_1", "/v1/workloads/" + "x" * 5000,
        "/v1/workloads/", "/v1/workload", "/v2/workloads", "/metrics", "/healthz", "/docs",
        "/leasehold.admission.v1.AdmissionService/SubmitWorkload", "//v1/workloads",
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_found(rig: Rig, path: str) -> None:
    _, client = rig.tenant()
    answer = client.get(path)
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_method_that_is_not_offered_is_refused_and_not_overridden(rig: Rig) -> None:
    _, client = rig.tenant()
    answer = client.patch("/v1/workloads", headers={"X-HTTP-Method-Override": "GET"})
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"]


def test_a_list_is_paged_by_opaque_cursors(rig: Rig) -> None:
    _, client = rig.tenant()
    for _ in range(5):
        client.post("/v1/workloads", content=TRAIN, headers=YAML)
    pages = [client.get("/v1/workloads", params={"page_size": "2"}).json()]
    while cursor := pages[-1]["next_page_token"]:
        assert not cursor.isdigit()
        query = {"page_size": "2", "page_token": cursor}
        pages.append(client.get("/v1/workloads", params=query).json())
    seen = [workload["workload_id"] for page in pages for workload in page["workloads"]]
    assert (len(pages), len(seen), len(set(seen))) == (3, 5, 5)


def test_money_is_text_in_nanos_and_in_decimals(rig: Rig) -> None:
    tenant_id, client = rig.tenant()
    body = {"amount": "100.5", "currency": "USD", "reference": "wire 1"}
    paid = rig.staff().post(f"/v1/tenants/{tenant_id}/top-ups", json=body)
    assert paid.status_code == 201
    balance = client.get("/v1/balance").json()
    assert (balance["available_nanos"], balance["available"]) == ("100500000000", "100.50")
    (price,) = client.get("/v1/prices").json()["prices"]
    assert (price["price_nanos"], price["price"]) == ("2490000000", "2.49")
    assert client.post(f"/v1/tenants/{tenant_id}/top-ups", json=body).status_code == 403


def test_staff_publish_prices_and_tenants_do_not(rig: Rig) -> None:
    _, client = rig.tenant()
    body = {"gpu_model": "A100", "price": "1.29", "currency": "USD"}
    for staff in (rig.staff(), rig.staff("books")):
        published = staff.post("/v1/prices", json=body)
        assert published.status_code == 201
        price = published.json()
        assert (price["price_nanos"], price["per_gpu_us"]) == ("1290000000", 3_600_000_000)
    assert client.post("/v1/prices", json=body).status_code == 403
    for wrong, field in (
        ({"price": "0"}, "price"),
        ({"price": 1.29}, "price"),
        ({"price_nanos": "5"}, "price"),
        ({"gpu_model": "h 100"}, "gpu_model"),
        ({"currency": "usd"}, "currency"),
        ({"effective_at": -1}, "effective_at"),
    ):
        refused = rig.staff().post("/v1/prices", json={**body, **wrong})
        assert (refused.status_code, refused.json()["field"]) == (400, field)


def test_an_envelope_is_changed_only_by_whoever_saw_its_last_version(rig: Rig) -> None:
    tenant_id, _ = rig.tenant()
    boss, path = rig.staff(), f"/v1/tenants/{tenant_id}/envelope"
    tag = boss.get(path).headers["etag"]
    body = {"gpu_quota": {"H100": 16}, "tier": "standard"}
    unconditional = boss.put(path, json=body)
    assert (unconditional.status_code, unconditional.json()["code"]) == (
        428, "PRECONDITION_REQUIRED",
    )  # fmt: skip
    changed = boss.put(path, json=body, headers={"If-Match": tag})
    assert (changed.status_code, changed.json()["gpu_quota"]) == (200, {"H100": 16})
    assert changed.headers["etag"] != tag
    for stale in (tag, "*", '"0"', "x", f"W/{changed.headers['etag']}"):
        assert boss.put(path, json=body, headers={"If-Match": stale}).status_code == 412
    for count in (-1, True, "8", 1.5, 2**40):
        wrong = boss.put(path, json={**body, "gpu_quota": {"H100": count}}, headers=JSON)
        assert (wrong.status_code, wrong.json()["field"]) == (400, "gpu_quota.H100")


def test_a_bug_elsewhere_shows_nothing_of_itself(rig: Rig) -> None:
    _, client = rig.tenant()
    rig.standins.billing.away = True
    try:
        answer = client.get("/v1/prices")
    finally:
        rig.standins.billing.away = False
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "secret" not in answer.text
    assert "ZeroDivision" not in answer.text


def test_every_answer_is_careful(rig: Rig) -> None:
    for answer in (rig.client().get("/"), rig.client().get("/nothing")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"].startswith("req_")
        assert not {"server", "access-control-allow-origin"} & answer.headers.keys()
