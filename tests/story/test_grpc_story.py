"""The first lease once more, told through gRPC alone, as services and batch clients speak."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import grpc
import pytest

from leasehold.admission.v1 import admission_service_pb2 as admission_pb
from leasehold.admission.v1 import workload_pb2
from leasehold.admission.v1.admission_service_pb2_grpc import AdmissionServiceStub
from leasehold.admission.v1.intent_pb2 import Intent, TrainingJob
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1.billing_service_pb2_grpc import BillingServiceStub
from leasehold.gateway.v1 import gateway_service_pb2 as gateway_pb
from leasehold.gateway.v1.gateway_service_pb2_grpc import GatewayServiceStub
from leasehold.launcher.platform import Platform
from tests.story.books import OVERHEAD_US_MAX, Books
from tests.story.customer import timed
from tests.story.heads import Heads
from tests.story.speakers import SECONDS, Metadata, Speakers, for_tenant, insisted, keyed, refusal
from tests.story.test_story import shared
from tests.waiting import wait_for

pytestmark = pytest.mark.story

FUNDS_NANOS = 100 * 10**9
CONFLICT = (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")
ENDED = {
    workload_pb2.WORKLOAD_STATE_SUCCEEDED,
    workload_pb2.WORKLOAD_STATE_FAILED,
    workload_pb2.WORKLOAD_STATE_STOPPED,
}


class Party:
    """An operator and a tenant, whose calls the gateway makes."""

    def __init__(self, speakers: Speakers, name: str) -> None:
        self.name = name
        self.gateway = GatewayServiceStub(speakers.operator("gateway"))
        self.admission = AdmissionServiceStub(speakers.gateway("admission"))
        self.billing = BillingServiceStub(speakers.gateway("billing"))
        self.treasury = BillingServiceStub(speakers.operator("billing"))
        request = gateway_pb.SignUpTenantRequest(name=name)
        signed_up = self.gateway.SignUpTenant(request, timeout=SECONDS, metadata=keyed(name))
        self.tenant_id = signed_up.tenant.tenant_id
        self.top_up(FUNDS_NANOS, f"funds of {self.tenant_id}")

    def top_up(self, nanos: int, key: str) -> billing_pb.TopUpResponse:
        request = billing_pb.TopUpRequest(
            tenant_id=self.tenant_id, amount_nanos=nanos, currency="USD", reference=key
        )
        # Until billing has heard of the tenant.
        not_yet = grpc.StatusCode.NOT_FOUND
        return insisted(self.treasury.TopUp, request, not_yet, metadata=keyed(key))

    def submit(self, intent: Intent, key: str = "") -> workload_pb2.Workload:
        request = admission_pb.SubmitWorkloadRequest(intent=intent)
        metadata = self.metadata(key)
        return insisted(self.admission.SubmitWorkload, request, metadata=metadata).workload

    def workload(self, workload_id: str) -> workload_pb2.Workload:
        request = admission_pb.GetWorkloadRequest(workload_id=workload_id)
        answer = self.admission.GetWorkload(request, timeout=SECONDS, metadata=self.metadata())
        return answer.workload

    def see_out(self, books: Books, *workload_ids: str) -> None:
        for workload_id in workload_ids:
            wait_for(
                lambda one=workload_id: self.workload(one).state in ENDED, seconds=30, what="an end"
            )
        wait_for(lambda: books.is_settled(self.tenant_id), seconds=30, what="the last posting")

    def metadata(self, key: str = "") -> Metadata:
        return for_tenant(self.tenant_id, key=key)


@pytest.fixture
def speakers(platform: Platform) -> Iterator[Speakers]:
    speakers = Speakers(platform)
    yield speakers
    speakers.close()


@pytest.fixture
def heads(platform: Platform) -> Iterator[Heads]:
    heads = Heads(platform)
    yield heads
    heads.close()


def test_from_sign_up_to_an_invoice_through_grpc_alone(
    speakers: Speakers, books: Books, tmp_path: Path
) -> None:
    party = Party(speakers, "grpc-story")
    witness = shared(tmp_path) / "duration"
    workload_id = party.submit(intent("one", timed(1, witness), gpu_count=2)).workload_id
    party.see_out(books, workload_id)
    workload = party.workload(workload_id)
    assert workload.state == workload_pb2.WORKLOAD_STATE_SUCCEEDED

    lease_us = books.check(party.tenant_id, [workload_id])[workload.lease_id]
    assert 0 <= lease_us - int(witness.read_text()) < OVERHEAD_US_MAX
    request = billing_pb.IssueInvoiceRequest(tenant_id=party.tenant_id)
    invoice = party.billing.IssueInvoice(
        request, timeout=SECONDS, metadata=party.metadata()
    ).invoice
    (line,) = invoice.lines
    assert line.gpu_us == 2 * lease_us
    assert line.exact_nanos == round(Fraction(line.price_nanos, line.per_gpu_us) * line.gpu_us)
    balance = party.billing.GetBalance(
        billing_pb.GetBalanceRequest(tenant_id=party.tenant_id),
        timeout=SECONDS,
        metadata=party.metadata(),
    ).balance
    assert (balance.prepaid_nanos, balance.held_nanos) == (FUNDS_NANOS - invoice.total_nanos, 0)


def test_each_intent_of_a_batch_has_its_own_answer(speakers: Speakers, books: Books) -> None:
    party = Party(speakers, "grpc-batch")
    intents = [
        intent("first"),
        intent("no-gpus", gpu_count=0),
        intent("Not A Name"),
        intent("second"),
        intent("peeking", environment={"CUDA_VISIBLE_DEVICES": "all"}),
        intent("no-program", command=[]),
        Intent(name="shapeless", project="default", env="dev", type="cluster"),
    ]
    request = admission_pb.SubmitBatchRequest(intents=intents)
    submit, metadata = party.admission.SubmitBatch, party.metadata("batch")
    # The first call may come before the tenant has its envelope; its key serves again.
    answer = insisted(submit, request, metadata=metadata)
    assert [result.error_code for result in answer.results] == [
        "",
        "GPU_COUNT",
        "NAME",
        "",
        "PLATFORM_OWNED",
        "COMMAND",
        "UNKNOWN_TYPE",
    ]
    for result in answer.results:
        assert bool(result.workload_id) != bool(result.error)
    assert submit(request, timeout=SECONDS, metadata=metadata) == answer
    accepted = [result.workload_id for result in answer.results if result.workload_id]
    party.see_out(books, *accepted)
    books.check(party.tenant_id, accepted)


def test_a_key_gives_one_answer_and_no_other_body(
    speakers: Speakers, books: Books, heads: Heads
) -> None:
    party = Party(speakers, "grpc-keys")
    once = party.submit(intent("once"), "submit-once")
    topped_up = party.top_up(7, "top-up-once")
    party.see_out(books, once.workload_id)
    with heads.unchanged():
        # The first answer, though the workload has ended since.
        assert party.submit(intent("once"), "submit-once") == once
        assert party.top_up(7, "top-up-once") == topped_up
        request = admission_pb.SubmitWorkloadRequest(intent=intent("twice"))
        metadata = party.metadata("submit-once")
        assert refusal(party.admission.SubmitWorkload, request, metadata=metadata) == CONFLICT
        more = billing_pb.TopUpRequest(
            tenant_id=party.tenant_id, amount_nanos=8, currency="USD", reference="top-up-once"
        )
        assert refusal(party.treasury.TopUp, more, metadata=keyed("top-up-once")) == CONFLICT
    books.check(party.tenant_id, [once.workload_id])


def intent(name: str, script: str = "true", **changes: Any) -> Intent:
    job = {
        "command": ["/bin/sh", "-c", script],
        "gpu_model": "H100",
        "gpu_count": 1,
        "seconds_max": 60,
    }
    return Intent(
        name=name,
        project="default",
        env="dev",
        type="training-job",
        training_job=TrainingJob(**{**job, **changes}),
    )
