"""Money on the command line: exact amounts, and invoices that prove themselves."""

import json
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.cli import proof
from leasehold.cli.failures import Exit
from leasehold.cli.profiles import Profiles
from tests.cli.conftest import Run
from tests.cli.shapes import costs, invoice, lease_cost
from tests.cli.standin import TENANT_ID, StandIn

INVOICE = invoice()["invoice_id"]
TOP_UPS = f"/v1/tenants/{TENANT_ID}/top-ups"
BALANCE = {
    "currency": "EUR",
    **{f"{name}_nanos": "0" for name in ("prepaid", "held", "available", "owed")},
}


def test_costs_are_summed_exactly(gateway: StandIn, logged_in: Profiles, leasehold: Run) -> None:
    answer = costs(lease_cost(1, 14_394_322), lease_cost(2, 10**18 + 1))
    gateway.on("GET", "/v1/costs", answer)
    code, out, _ = leasehold("cost")
    assert code == 0
    assert "10.405534  2.49 USD / GPU-h" in out
    assert "Total 1000000000.014394323 USD" in out
    document = json.loads(leasehold("cost", "-o", "json")[1])
    assert document["leases"] == answer["leases"]
    assert document["totals"] == [
        {
            "currency": "USD",
            "amount_nanos": "1000000000014394323",
            "amount": "1000000000.014394323",
        }
    ]


def test_the_newest_invoice_is_shown_unless_one_is_named(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/invoices", {"invoices": []})
    code, _, err = leasehold("invoice", "show")
    assert (code, "leasehold invoice issue" in err) == (Exit.NOT_FOUND, True)
    older = {**invoice(), "number": 6, "invoice_id": "inv_6"}
    gateway.on("GET", "/v1/invoices", {"invoices": [older, invoice(), {**older, "number": 5}]})
    gateway.on("GET", f"/v1/invoices/{INVOICE}", invoice())
    assert f"#7  {INVOICE}" in leasehold("invoice", "show")[1]


def test_an_invoice_is_shown_with_the_proof_of_its_lines(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/invoices", {"invoices": [invoice()]})
    gateway.on("GET", f"/v1/invoices/{INVOICE}", invoice())
    for given_as in (INVOICE, "7", "#7"):
        code, out, _ = leasehold("invoice", "show", given_as)
        assert code == 0
        assert (
            "✓ line 1: 10.405534 s × 2 GPUs × 2.49 USD / GPU-h = 0.014394322 USD, payable 0.01 USD"
            in out
        )
        assert "Total 0.11 USD" in out
    document = json.loads(leasehold("invoice", "show", "7", "-o", "json")[1])
    assert document == {**invoice(), "faults": []}


def test_an_invoice_that_does_not_add_up_is_found_out(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    wrong = invoice()
    wrong["lines"][0]["exact_nanos"] = "14394323"
    gateway.on("GET", f"/v1/invoices/{INVOICE}", wrong)
    code, out, _ = leasehold("invoice", "show", INVOICE)
    assert code == Exit.NEGATIVE
    assert "✗ line 1: seconds × price is 14394322 nano-units, not 14394323" in out


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i: i["lines"][0].update(ended_at=i["lines"][0]["ended_at"] + 1), "GPU-µs"),
        (lambda i: i["lines"][0].update(gpu_count=3), "GPU-µs"),
        (lambda i: i["lines"][1].update(price_nanos="2490000100"), "line 2: seconds × price"),
        (lambda i: i["lines"][0].update(amount_nanos="20000000"), "rounded once"),
        (lambda i: i.update(total_nanos="110000001"), "sum up to"),
        (lambda i: i["lines"].append(i["lines"][0]), "twice"),
    ],
)
def test_every_change_of_an_invoice_is_noticed(change: Change, said: str) -> None:
    document = invoice()
    assert proof.faults(document) == []
    change(document)
    assert any(said in fault for fault in proof.faults(document)), proof.faults(document)


@given(st.integers(1, 10**14), st.integers(1, 64), st.integers(1, 10**13), st.integers(1, 10**11))
def test_the_proof_agrees_with_decimal_arithmetic(
    lasted: int, gpu_count: int, price_nanos: int, per_gpu_us: int
) -> None:
    gpu_us = lasted * gpu_count
    exact = Decimal(gpu_us * price_nanos) / Decimal(per_gpu_us)
    if exact != exact.to_integral_value() and abs(exact % 1 - Decimal("0.5")) < Decimal("1e-3"):
        return  # Decimal itself rounds the quotient; too near to a half to compare
    rounded = int(exact.to_integral_value(ROUND_HALF_EVEN))
    line = {
        "line": 1,
        "activated_at": 0,
        "ended_at": lasted,
        "gpu_count": gpu_count,
        "gpu_us": gpu_us,
        "price_nanos": str(price_nanos),
        "per_gpu_us": per_gpu_us,
        "exact_nanos": str(rounded),
        "amount_nanos": str(int(Decimal(rounded).scaleb(-7).to_integral_value()) * 10**7),
    }
    if len(str(rounded)) <= 26:  # what Decimal holds exactly
        assert proof.line_fault(line, "USD") == ""


def test_a_top_up_is_sent_in_nano_units_in_the_accounts_currency(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/balance", BALANCE)
    gateway.on("POST", TOP_UPS, BALANCE)
    assert leasehold("topup", "acme", "100.000000001")[0] == 0
    (sent,) = gateway.calls("POST", TOP_UPS)
    document = json.loads(sent.body)
    assert (document["amount_nanos"], document["currency"]) == ("100000000001", "EUR")
    assert document["reference"] == sent.key


@pytest.mark.parametrize("amount", ["0", "1.0000000001", "1e3", "ten"])
def test_an_amount_that_is_not_one_is_refused_before_anything_is_sent(
    gateway: StandIn, logged_in: Profiles, leasehold: Run, amount: str
) -> None:
    assert leasehold("topup", "acme", amount)[0] == Exit.USAGE
    assert gateway.asked == []


@pytest.mark.parametrize("tenant", ["nobody", "ten_../x", "ten_"])
def test_a_tenant_is_an_id_or_a_profile_of_ones_own(
    gateway: StandIn, logged_in: Profiles, leasehold: Run, tenant: str
) -> None:
    assert leasehold("topup", tenant, "5")[0] == Exit.NOT_FOUND
    assert gateway.asked == []
