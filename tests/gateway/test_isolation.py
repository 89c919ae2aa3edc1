"""Apart: roles, tenants, keys. What is not yours does not exist."""

import httpx

from gateway.http.app import operations
from tests.gateway.rig import Rig


def test_each_route_is_open_to_the_roles_of_its_row_and_to_no_other(rig: Rig) -> None:
    clients: dict[str, httpx.Client] = {
        f"tenant_{role}": rig.tenant(role)[1] for role in ("viewer", "user", "admin")
    }
    clients |= {"operator": rig.staff("boss"), "finance": rig.staff("books")}
    wrong = []
    for operation in operations(rig.gate):
        if not operation.needs_token:
            continue
        path = operation.path.replace("{", "").replace("}", "")
        for role, client in clients.items():
            status = client.request(operation.method, path).status_code
            if (status == 403) != (role not in operation.roles) or status >= 500:
                wrong.append((role, operation.method, path, status))
        if rig.client().request(operation.method, path).status_code != 401:
            wrong.append(("nobody", operation.method, path, 0))
    assert not wrong


def test_another_tenants_things_do_not_exist(rig: Rig) -> None:
    theirs, them = rig.tenant()
    _, us = rig.tenant()
    intent = {
        "apiVersion": "leasehold/v1",
        "kind": "Component",
        "metadata": {"name": "theirs"},
        "spec": {"type": "training-job", "gpus": 1, "gpuModel": "H100", "command": ["true"],
                 "secondsMax": 60},
    }  # fmt: skip
    workload_id = them.post("/v1/workloads", json=intent).json()["workload_id"]
    client_id = them.post("/v1/credentials", json={"role": "user"}).json()["client_id"]
    missing = "wl_missing"
    for method, path in [
        ("GET", f"/v1/workloads/{workload_id}"),
        ("GET", f"/v1/workloads/{workload_id}/logs"),
        ("GET", f"/v1/tenants/{theirs}"),
        ("GET", f"/v1/tenants/{theirs}/envelope"),
        ("GET", f"/v1/balance?tenant={theirs}"),
        ("GET", f"/v1/costs?tenant={theirs}"),
        ("GET", f"/v1/invoices?tenant={theirs}"),
        ("POST", f"/v1/invoices?tenant={theirs}"),
        ("DELETE", f"/v1/credentials/{client_id}"),
        ("DELETE", f"/v1/credentials/{client_id}?tenant={theirs}"),
    ]:
        answer = us.request(method, path)
        assert answer.status_code == 404, path
    strange, absent = us.get(f"/v1/workloads/{workload_id}"), us.get(f"/v1/workloads/{missing}")
    assert strange.json()["code"] == absent.json()["code"]
    assert us.get("/v1/workloads").json()["workloads"] == []


def test_a_tenant_cannot_be_named_in_a_body(rig: Rig) -> None:
    theirs, _ = rig.tenant()
    _, us = rig.tenant()
    for field in ("tenant", "tenant_id"):
        answer = us.post("/v1/projects", json={"project": "x", field: theirs})
        assert (answer.status_code, answer.json()["code"]) == (400, "UNKNOWN_FIELD")


def test_keys_of_two_tenants_do_not_meet(rig: Rig) -> None:
    headers = {"Idempotency-Key": "one-key"}
    for project in ("first", "second"):
        _, client = rig.tenant()
        answer = client.post("/v1/projects", json={"project": project}, headers=headers)
        assert answer.status_code == 201
        again = client.post("/v1/projects", json={"project": project}, headers=headers)
        assert again.json() == answer.json()


def test_a_key_used_again_with_another_body_is_a_conflict(rig: Rig) -> None:
    _, client = rig.tenant()
    headers = {"Idempotency-Key": "used"}
    assert client.post("/v1/projects", json={"project": "a"}, headers=headers).is_success
    answer = client.post("/v1/projects", json={"project": "b"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "IDEMPOTENCY_CONFLICT")


def test_staff_name_the_tenant_they_ask_about(rig: Rig) -> None:
    tenant_id, _ = rig.tenant()
    books = rig.staff("books")
    assert books.get("/v1/balance").json()["code"] == "TENANT"
    assert books.get(f"/v1/balance?tenant={tenant_id}").json()["tenant_id"] == tenant_id
