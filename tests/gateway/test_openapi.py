"""The OpenAPI document: it lists what there is, no more and no less, and all of it in full."""

import json
import re
from typing import Any

import pytest

from gateway.http.app import operations
from gateway.http.problems import STATUSES
from leasehold.authorisation import TABLE
from tests.gateway.rig import Rig

PROMISED = """
POST /v1/tenants · GET /v1/tenants/{} · POST /v1/tenants/{}/suspend · POST /v1/tenants/{}/resume
POST /v1/credentials · DELETE /v1/credentials/{} · POST /v1/projects
POST /v1/workloads · GET /v1/workloads · GET /v1/workloads/{} · POST /v1/workloads/{}/stop
GET /v1/workloads/{}/explain · GET /v1/workloads/{}/logs
GET /v1/leases · GET /v1/leases/{} · GET /v1/leases/{}/trail
GET /v1/balance · GET /v1/costs · POST /v1/invoices · GET /v1/invoices · GET /v1/invoices/{}
GET /v1/prices · POST /v1/prices · POST /v1/tenants/{}/top-ups · GET /v1/tenants/{}/envelope
PUT /v1/tenants/{}/envelope · GET /v1/nodes · POST /v1/nodes/join-tokens
GET /v1/sources · POST /v1/sources · GET /v1/sources/{}/offers · POST /v1/sources/{}/audit
GET /v1/instances · POST /v1/instances · DELETE /v1/instances/{} · GET /v1/guards
GET /v1/exports/focus
GET /v1/provider-costs · POST /v1/provider-bills · GET /v1/matches · POST /v1/matches/accept
GET /v1/margin
POST /v1/price-books · POST /v1/price-books/what-if · GET /v1/commitments
POST /v1/tenants/{}/commitments · POST /v1/tenants/{}/exchanges
GET /v1/funds · PUT /v1/tenants/{}/terms · POST /v1/tenants/{}/promos · GET /v1/periods
GET /v1/invoices/{}.html · POST /v1/invoices/{}/credits · GET /v1/budgets · PUT /v1/budgets
GET /v1/ledger/balances · GET /v1/ledger/postings · GET /v1/ledger/check
GET /v1/invoices/{}/proof · GET /v1/proofs/head · GET /v1/proofs/heads · GET /v1/proofs/keys
GET /v1/proofs/consistency · POST /v1/proofs/keys
POST /oauth/token · GET /.well-known/jwks.json · GET /openapi.json · GET /
"""


def test_the_document_lists_every_route_and_no_other(rig: Rig) -> None:
    described = {
        f"{method.upper()} {re.sub('{.*?}', '{}', path)}"
        for path, methods in document(rig)["paths"].items()
        for method in methods
    }
    assert described == {line.strip() for line in re.split("[·\n]", PROMISED) if line.strip()}
    assert len(operations(rig.gate)) == len(described)


def test_every_operation_is_described_in_full(rig: Rig) -> None:
    found = document(rig)
    names = set()
    for path, methods in found["paths"].items():
        for method, described in methods.items():
            names.add(described["operationId"])
            assert described["summary"].endswith("."), path
            success, *errors = described["responses"]
            assert success.startswith("2")
            assert {"400", "404", "429", "500", "503"} <= set(errors)
            assert ("content" in described["responses"][success]) == (success != "204")
            parameters = {one["name"] for one in described["parameters"]}
            assert set(re.findall("{(.*?)}", path)) <= parameters
            assert ("Idempotency-Key" in parameters) == (method != "get" and path[:4] == "/v1/")
            if path.startswith("/v1/") and described["operationId"] != "post_v1_tenants":
                assert described["security"] == [{"oauth2": []}]
                assert described["x-leasehold-roles"]
                assert {"401", "403"} <= set(errors)
    assert len(names) == len(operations(rig.gate))


def test_every_reference_leads_somewhere(rig: Rig) -> None:
    found = document(rig)
    references = set(re.findall(r'"\$ref": ?"#/(.*?)"', json.dumps(found)))
    assert references
    for reference in references:
        place: Any = found
        for part in reference.split("/"):
            place = place[part]
    assert found["openapi"].startswith("3.1")
    assert {int(status) for status in found["components"]["responses"]} == set(STATUSES)


def test_the_roles_are_those_of_the_authorisation_table(rig: Rig) -> None:
    for operation in operations(rig.gate):
        if operation.rpc is not None:
            row = TABLE[f"/{operation.rpc.containing_service.full_name}/{operation.rpc.name}"]
            assert operation.roles, "an operation nobody may use"
            assert all(row[role] for role in operation.roles)


def test_an_intents_schema_is_closed(rig: Rig) -> None:
    schemas = document(rig)["components"]["schemas"]
    for name in ("IntentDocument", "Metadata", "Spec", "SignUp", "TopUp"):
        assert schemas[name]["additionalProperties"] is False
    assert "gpuModel" in schemas["Spec"]["properties"]


@pytest.mark.parametrize("name", ["Workload", "Balance", "Lease"])
def test_a_real_answer_has_exactly_the_described_fields(rig: Rig, name: str) -> None:
    schemas = document(rig)["components"]["schemas"]
    _, client = rig.tenant()
    if name == "Balance":
        answer = client.get("/v1/balance").json()
        assert answer.keys() == schemas[name]["properties"].keys()
    assert set(schemas[name]["required"]) == set(schemas[name]["properties"])


def document(rig: Rig) -> dict[str, Any]:
    return rig.client().get("/openapi.json").json()  # type: ignore[no-any-return]
