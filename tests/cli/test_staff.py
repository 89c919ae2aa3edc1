"""What operators and finance ask for, of which tenant, and how they are told what they may not."""

import json
from pathlib import Path

import pytest

from chassis.errors import Invalid
from leasehold.cli.failures import Exit
from tests.cli.conftest import Run
from tests.cli.shapes import HOUR_US, RUNNING, explanation, lease_id, workload, workload_id
from tests.cli.standin import TENANT_ID, Asked, StandIn

pytestmark = pytest.mark.usefixtures("logged_in")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
UNNAMED = Invalid("name the tenant: ?tenant=ten_…", code="TENANT", field="tenant")
H100 = {
    "gpu_model": "H100",
    "price_nanos": "2490000000",
    "per_gpu_us": HOUR_US,
    "currency": "EUR",
    "effective_at": 1,
    "price_version": 1,
}


@pytest.fixture(autouse=True)
def things(gateway: StandIn) -> None:
    """Things of a tenant, for whoever names it."""
    found = workload(1, state=RUNNING, lease_id=lease_id(1))
    trail = {"lease_id": lease_id(1), "workload_id": workload_id(1), "events": []}

    def listed(name: str, *items: object) -> None:
        def answer(asked: Asked) -> object:
            return {name: items} if asked.query.get("tenant") == TENANT_ID else UNNAMED

        gateway.on("GET", f"/v1/{name}", answer)

    listed("workloads", found)
    listed("leases")
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}", found)
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}/explain", explanation([]))
    gateway.on("GET", f"/v1/leases/{lease_id(1)}/trail", trail)


@pytest.mark.parametrize("words", [["ps"], ["leases"], ["explain", "train"], ["trail", "train"]])
def test_staff_name_the_tenant_and_are_told_how(leasehold: Run, words: list[str]) -> None:
    code, _, err = leasehold(*words)
    assert (code, "next: name the tenant with --tenant" in err) == (Exit.USAGE, True)
    for tenant in (TENANT_ID, "acme"):
        assert leasehold(*words, "--tenant", tenant)[0] == 0


@pytest.mark.parametrize("words", [["stop", "train"], ["logs", "train"], ["logs", "-f", "train"]])
def test_what_only_the_tenant_may_do_is_said_to_be_so(leasehold: Run, words: list[str]) -> None:
    code, _, err = leasehold(*words)
    assert code == Exit.NEGATIVE
    assert "only the tenant itself may do this (PERMISSION_DENIED)" in err
    assert "--profile" in err


def test_a_price_is_published_in_the_currency_of_the_others(
    gateway: StandIn, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/prices", {"prices": [H100]})
    gateway.on("POST", "/v1/prices", {**H100, "gpu_model": "A100", "price_version": 2})
    code, out, _ = leasehold("price", "publish", "A100", "1.29", "--from", "2030-01-31T01:00+01:00")
    assert (code, "A100" in out) == (0, True)
    (sent,) = gateway.calls("POST", "/v1/prices")
    assert json.loads(sent.body) == {
        "gpu_model": "A100",
        "price_nanos": "1290000000",
        "currency": "EUR",
        "effective_at": 1_896_048_000_000_000,
    }


def test_the_first_price_needs_its_currency(gateway: StandIn, leasehold: Run) -> None:
    gateway.on("GET", "/v1/prices", {"prices": []})
    gateway.on("POST", "/v1/prices", H100)
    code, _, err = leasehold("price", "publish", "H100", "2.49")
    assert (code, "--currency" in err) == (Exit.USAGE, True)
    assert leasehold("price", "publish", "H100", "2.49", "--currency", "EUR")[0] == 0


@pytest.mark.parametrize("words", [["0"], ["free"], ["2.49", "--from", "tomorrow"]])
def test_a_price_that_is_none_is_not_sent(
    gateway: StandIn, leasehold: Run, words: list[str]
) -> None:
    assert leasehold("price", "publish", "H100", *words)[0] == Exit.USAGE
    assert gateway.calls("POST", "/v1/prices") == []


def test_a_project_is_opened(gateway: StandIn, leasehold: Run) -> None:
    gateway.on("POST", "/v1/projects", {"name": "acme", "projects": ["default", "vision"]})
    code, out, _ = leasehold("project", "open", "vision", "--tenant", "acme")
    assert (code, out) == (0, "acme has the projects default, vision.\n")
    (sent,) = gateway.calls("POST", "/v1/projects")
    assert (json.loads(sent.body), sent.query) == ({"project": "vision"}, {"tenant": TENANT_ID})


def test_a_project_nobody_opened_leads_to_opening_it(gateway: StandIn, leasehold: Run) -> None:
    unknown = Invalid("no project 'vision'; open it first", code="UNKNOWN_PROJECT")
    gateway.on("POST", "/v1/workloads", unknown)
    code, _, err = leasehold("apply", "-f", str(EXAMPLES / "train.yaml"))
    assert (code, "leasehold project open NAME" in err) == (Exit.USAGE, True)
