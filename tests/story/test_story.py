"""The first lease, told from sign-up to invoice, as a customer sees it."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.story.books import OVERHEAD_US_MAX, Books
from tests.story.customer import SignUp, timed
from tests.waiting import wait_for

pytestmark = pytest.mark.story


def test_from_sign_up_to_an_invoice_that_adds_up(
    sign_up: SignUp, books: Books, tmp_path: Path
) -> None:
    customer = sign_up("acme")
    witness = shared(tmp_path) / "duration"
    workload_id = customer.submit("first-run", timed(2, witness), gpus=2)
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    workload = customer.workload(workload_id)
    assert (workload["state"], workload["exit_code"]) == ("SUCCEEDED", 0)

    leases = books.check(customer.tenant_id, [workload_id])
    lease_us = leases[workload["lease_id"]]
    assert 0 <= lease_us - int(witness.read_text()) < OVERHEAD_US_MAX

    invoice = customer.post("/v1/invoices")
    (line,) = invoice["lines"]
    assert line["gpu_us"] == 2 * lease_us
    rate = Fraction(int(line["price_nanos"]), int(line["per_gpu_us"]))
    assert int(line["exact_nanos"]) == round(rate * line["gpu_us"])
    assert customer.get("/v1/invoices")["invoices"][0]["invoice_id"] == invoice["invoice_id"]
    balance = customer.get("/v1/balance")
    assert int(balance["prepaid_nanos"]) == 100_000_000_000 - int(invoice["total_nanos"])
    assert balance["held_nanos"] == "0"
    assert "working" in customer.send("GET", f"/v1/workloads/{workload_id}/logs").text


def test_a_trail_reads_from_the_intent_to_the_invoice_line(sign_up: SignUp, tmp_path: Path) -> None:
    customer = sign_up("trail")
    workload_id = customer.submit("traced", timed(0.2, shared(tmp_path) / "duration"))
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    customer.post("/v1/invoices")
    lease_id = customer.workload(workload_id)["lease_id"]
    trail = customer.trail(lease_id)
    topics = [event["topic"] for event in trail]
    # A short job may have ended before billing heard that it began, so there are two strands.
    for strand in (
        [
            "admission.workload.submitted",
            "placement.lease.held",
            "billing.account.hold_placed",
            "admission.workload.admitted",
            "placement.lease.bound",
            "placement.lease.activated",
            "placement.lease.ended",
            "billing.meter.closed",
            "billing.meter.invoiced",
        ],
        ["placement.lease.activated", "billing.meter.opened", "billing.meter.closed"],
    ):
        assert [topic for topic in topics if topic in strand] == strand
    seen: set[str] = set()
    for event in trail:
        cause = event["causation_id"]
        assert "/" not in cause or cause in seen, f"{event['topic']} stands before its cause"
        seen.add(event["event_id"])


def test_a_job_that_fails_is_billed_and_says_so(sign_up: SignUp, books: Books) -> None:
    customer = sign_up("failing")
    workload_id = customer.submit("broken", "echo about to fail; exit 3")
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    workload = customer.workload(workload_id)
    assert (workload["state"], workload["exit_code"]) == ("FAILED", 3)
    books.check(customer.tenant_id, [workload_id])


def test_a_job_can_be_stopped_and_pays_until_then(sign_up: SignUp, books: Books) -> None:
    customer = sign_up("impatient")
    workload_id = customer.submit("long", "sleep 600", seconds_max=900)
    wait_for(
        lambda: customer.workload(workload_id)["state"] == "RUNNING", seconds=30, what="the start"
    )
    customer.post(f"/v1/workloads/{workload_id}/stop")
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the stop")
    assert customer.workload(workload_id)["state"] == "STOPPED"
    books.check(customer.tenant_id, [workload_id])


def test_a_job_ends_at_its_own_limit(sign_up: SignUp, books: Books) -> None:
    customer = sign_up("limited")
    workload_id = customer.submit("endless", "sleep 600", seconds_max=2)
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the limit")
    assert customer.workload(workload_id)["state"] == "STOPPED"
    (lease_us,) = books.check(customer.tenant_id, [workload_id]).values()
    assert 2_000_000 <= lease_us < 2_000_000 + OVERHEAD_US_MAX


def test_work_beyond_the_quota_waits_with_its_reason_and_starts_when_there_is_room(
    sign_up: SignUp, books: Books
) -> None:
    customer = sign_up("greedy")
    first = customer.submit("first", "sleep 600", gpus=8, seconds_max=900)
    wait_for(lambda: customer.workload(first)["state"] == "RUNNING", seconds=30, what="the start")
    second = customer.submit("second", "true", gpus=1)
    wait_for(lambda: customer.workload(second)["reason"] == "QUOTA", seconds=30, what="the reason")
    told = customer.get(f"/v1/workloads/{second}/explain")
    assert (told["quota_gpus"], told["quota_gpus_used"]) == (8, 8)
    assert told["remedies"]
    customer.post(f"/v1/workloads/{first}/stop")
    wait_for(lambda: customer.has_ended(second), seconds=30, what="its turn")
    assert customer.workload(second)["state"] == "SUCCEEDED"
    books.check(customer.tenant_id, [first, second])


def test_without_money_nothing_starts_and_a_top_up_starts_it(sign_up: SignUp, books: Books) -> None:
    customer = sign_up("broke", amount="0.000000001")
    workload_id = customer.submit("poor", "true")
    wait_for(
        lambda: customer.workload(workload_id)["reason"] == "BUDGET", seconds=30, what="the reason"
    )
    customer.post(f"/v1/workloads/{workload_id}/stop")
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the stop")


def shared(folder: Path) -> Path:
    """A folder that a job may write to, whichever account it runs as."""
    for one in (folder, *folder.parents[:2]):
        one.chmod(0o777)
    return folder
