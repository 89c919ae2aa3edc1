"""Between protobuf messages and the words of the domain. Pure.

An intent is kept as a document with the field names of its message, every field present, so
that one intent has one canonical form.
"""

from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.unknown_fields import UnknownFieldSet

from admission.domain import Envelope, Workload
from admission.holds import Answer, Candidate, Keeper, silence
from admission.policy import Denial, PendingReason
from chassis.errors import Invalid
from leasehold.admission.v1 import admission_service_pb2 as pb
from leasehold.admission.v1 import intent_pb2, workload_pb2
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.placement.v1 import placement_service_pb2 as placement_pb

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500

_NO_GPUS = {
    placement_pb.HOLD_REFUSAL_NEVER_FITS: PendingReason.NEVER_FITS,
    placement_pb.HOLD_REFUSAL_CAPACITY: PendingReason.CAPACITY,
}


def intent(message: intent_pb2.Intent) -> dict[str, Any]:
    """The document of an intent; a field that the type does not have is refused."""
    job = message.training_job
    if len(UnknownFieldSet(message)) or len(UnknownFieldSet(job)):
        raise Invalid("the intent has fields this platform does not know", code="UNKNOWN_FIELD")
    return {
        "name": message.name,
        "project": message.project,
        "env": message.env,
        "type": message.type,
        "training_job": _training_job(job) if message.HasField("training_job") else None,
        "traits": list(message.traits),
    }


def _training_job(job: intent_pb2.TrainingJob) -> dict[str, Any]:
    return {
        "command": list(job.command),
        "environment": dict(job.environment),
        "gpu_model": job.gpu_model,
        "gpu_count": job.gpu_count,
        "seconds_max": job.seconds_max,
    }


def intent_message(document: dict[str, Any]) -> intent_pb2.Intent:
    return ParseDict(document, intent_pb2.Intent())


def workload(found: Workload, position: int) -> workload_pb2.Workload:
    reason = f"PENDING_REASON_{found.reason}" if found.reason else None
    return workload_pb2.Workload(
        workload_id=found.id,
        tenant_id=found.tenant_id,
        intent=intent_message(found.intent),
        state=f"WORKLOAD_STATE_{found.status}",
        reason=reason,
        detail=found.detail,
        position=position,
        lease_id=found.lease_id,
        submitted_at=found.submitted_at,
        admitted_at=found.admitted_at,
        started_at=found.started_at,
        ended_at=found.ended_at,
        exit_code=found.exit_code,
        cause=found.cause,
        attempt=found.attempt,
    )


def wait_interval(wait: dict[str, Any]) -> pb.WaitInterval:
    return ParseDict({**wait, "reason": f"PENDING_REASON_{wait['reason']}"}, pb.WaitInterval())


def envelope(found: Envelope) -> workload_pb2.Envelope:
    return workload_pb2.Envelope(
        tenant_id=found.tenant_id,
        gpu_quota=found.gpu_quota,
        tier=found.tier,
        traits=found.traits,
        version=found.version,
        suspended=found.suspended,
    )


def page_size(asked: int) -> int:
    return max(1, min(asked or PAGE_SIZE, PAGE_SIZE_MAX))


def page_start(token: str) -> int:
    if token and not (token.isascii() and token.isdigit() and len(token) <= 18):
        raise Invalid("not a page token of a previous answer", code="PAGE_TOKEN")
    return int(token or 0)


# Holds, as placement and billing understand them.


def gpu_holds(candidates: Iterable[Candidate]) -> placement_pb.PlaceHoldsRequest:
    return placement_pb.PlaceHoldsRequest(
        holds=[
            placement_pb.HoldRequest(
                lease_id=candidate.lease_id,
                tenant_id=candidate.tenant_id,
                workload_id=candidate.workload_id,
                gpu_model=candidate.request.gpu_model,
                gpu_count=candidate.request.gpu_count,
                correlation_id=candidate.workload_id,
                causation_id=candidate.causation_id,
            )
            for candidate in candidates
        ]
    )


def money_holds(candidates: Iterable[Candidate]) -> billing_pb.PlaceHoldsRequest:
    return billing_pb.PlaceHoldsRequest(
        holds=[
            billing_pb.MoneyHoldRequest(
                lease_id=candidate.lease_id,
                tenant_id=candidate.tenant_id,
                gpu_model=candidate.request.gpu_model,
                gpu_count=candidate.request.gpu_count,
                seconds_max=candidate.request.seconds_max,
                correlation_id=candidate.workload_id,
                causation_id=candidate.causation_id,
                project=candidate.project,
            )
            for candidate in candidates
        ]
    )


def take_gpu_answers(answers: Iterable[Answer], response: placement_pb.PlaceHoldsResponse) -> None:
    results = {result.lease_id: result for result in response.results}
    for answer in answers:
        result = results.get(answer.candidate.lease_id)
        if result is None:
            answer.denial = silence(Keeper.PLACEMENT)
        elif not result.refusal:
            answer.holds.add(Keeper.PLACEMENT)
        elif result.refusal == placement_pb.HOLD_REFUSAL_LAPSED:
            answer.lapsed = True
        else:
            # A refusal of a later version of the contract is about capacity, too.
            reason = _NO_GPUS.get(result.refusal, PendingReason.CAPACITY)
            answer.denial = Denial(reason, result.detail)


def take_money_answers(answers: Iterable[Answer], response: billing_pb.PlaceHoldsResponse) -> None:
    results = {result.lease_id: result for result in response.results}
    for answer in answers:
        result = results.get(answer.candidate.lease_id)
        if result is None:
            answer.denial = silence(Keeper.BILLING)
        elif not result.refusal:
            answer.holds.add(Keeper.BILLING)
        elif result.refusal == billing_pb.MONEY_REFUSAL_LAPSED:
            answer.lapsed = True
        else:
            answer.denial = Denial(PendingReason.BUDGET, result.detail)
