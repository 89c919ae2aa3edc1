"""The service over gRPC: what tenants and operators get, and what they are refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from leasehold.admission.v1 import admission_service_pb2 as pb
from leasehold.admission.v1 import intent_pb2, workload_pb2
from tests.admission.serving import Service, as_tenant, message, refusal, serving

ACME, BETA = "ten_acme", "ten_beta"

Scenario = Callable[[Service], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture
def play(tmp_path: Path, database_url: str) -> Play:
    """Runs a scenario on a service with two tenants whose queue stands still."""

    async def played(scenario: Scenario) -> None:
        async with serving(tmp_path, database_url, looping=False) as (service, _):
            for tenant_id in (ACME, BETA):
                await service.sign_up(tenant_id)
            await scenario(service)

    return lambda scenario: asyncio.run(played(scenario))


def test_a_workload_is_submitted_shown_explained_and_stopped(play: Play) -> None:
    async def scenario(service: Service) -> None:
        await service.submit(BETA)
        key = await service.submit(ACME, gpu_count=4)
        shown = await get(service, key)
        assert shown.intent == message(gpu_count=4)
        assert (shown.state, shown.position) == (workload_pb2.WORKLOAD_STATE_QUEUED, 2)
        assert shown.reason == workload_pb2.PENDING_REASON_PRIORITY
        told = await call(service, "ExplainWorkload", pb.ExplainWorkloadRequest(workload_id=key))
        assert (told.gpus_requested, told.quota_gpus, told.quota_gpus_used) == (4, 8, 0)
        assert (told.ahead, len(told.waits), bool(told.remedies)) == (1, 1, True)
        assert getattr(told.waits[0], "from") == shown.submitted_at
        stopped = await call(service, "StopWorkload", pb.StopWorkloadRequest(workload_id=key))
        assert stopped.workload.state == workload_pb2.WORKLOAD_STATE_STOPPED
        assert (stopped.workload.position, stopped.workload.cause) == (0, "STOPPED")

    play(scenario)


def test_the_same_key_gives_the_same_workload_and_another_body_is_a_conflict(play: Play) -> None:
    async def scenario(service: Service) -> None:
        once = [("idempotency-key", "k1")]
        answers = [await submit(service, once, gpu_count=1) for _ in range(2)]
        assert answers[0] == answers[1]
        conflict = refusal(submit(service, once, gpu_count=2))
        assert await conflict == ("ALREADY_EXISTS", "IDEMPOTENCY_CONFLICT")
        assert await service.seen(lambda admission: len(admission.queue)) == 1

    play(scenario)


def test_another_tenants_things_are_not_found(play: Play) -> None:
    async def scenario(service: Service) -> None:
        key = await service.submit(BETA)
        for method, request in (
            ("GetWorkload", pb.GetWorkloadRequest(workload_id=key)),
            ("ExplainWorkload", pb.ExplainWorkloadRequest(workload_id=key)),
            ("StopWorkload", pb.StopWorkloadRequest(workload_id=key)),
            ("ListWorkloads", pb.ListWorkloadsRequest(tenant_id=BETA)),
            ("GetEnvelope", pb.GetEnvelopeRequest(tenant_id=BETA)),
        ):
            assert (await refusal(call(service, method, request)))[0] == "NOT_FOUND", method
        listed = await call(service, "ListWorkloads", pb.ListWorkloadsRequest())
        assert list(listed.workloads) == []
        assert (await service.shown(key)).state == workload_pb2.WORKLOAD_STATE_QUEUED

    play(scenario)


def test_a_bad_intent_has_a_stable_code_and_changes_nothing(play: Play) -> None:
    async def scenario(service: Service) -> None:
        for job, status, code in (
            ({"command": []}, "INVALID_ARGUMENT", "COMMAND"),
            ({"environment": {"CUDA_X": "1"}}, "INVALID_ARGUMENT", "PLATFORM_OWNED"),
            ({"gpu_count": 9}, "FAILED_PRECONDITION", "NEVER_FITS"),
            ({"gpu_model": "A100"}, "FAILED_PRECONDITION", "NOT_ENTITLED"),
        ):
            assert await refusal(submit(service, [], **job)) == (status, code)
        nothing = call(service, "SubmitWorkload", pb.SubmitWorkloadRequest())
        assert await refusal(nothing) == ("INVALID_ARGUMENT", "NAME")
        unknown = intent_pb2.Intent.FromString(message().SerializeToString() + b"\xfa\x07\x01x")
        request = pb.SubmitWorkloadRequest(intent=unknown)
        forged = call(service, "SubmitWorkload", request)
        assert await refusal(forged) == ("INVALID_ARGUMENT", "UNKNOWN_FIELD")
        stranger = service.submit("ten_unknown")
        assert await refusal(stranger) == ("UNAVAILABLE", "ENVELOPE_PENDING")
        assert await service.seen(lambda admission: admission.head.position) == 2

    play(scenario)


def test_a_batch_answers_for_each_intent(play: Play) -> None:
    async def scenario(service: Service) -> None:
        unknown = intent_pb2.Intent.FromString(message().SerializeToString() + b"\xfa\x07\x01x")
        intents = [message(), message(gpu_count=0), unknown, message(gpu_count=2)]
        answer = await call(service, "SubmitBatch", pb.SubmitBatchRequest(intents=intents))
        codes = [result.error_code for result in answer.results]
        assert codes == ["", "GPU_COUNT", "UNKNOWN_FIELD", ""]
        assert [bool(r.workload_id) for r in answer.results] == [True, False, False, True]
        assert (await get(service, answer.results[3].workload_id)).position == 2
        too_many = pb.SubmitBatchRequest(intents=[message()] * 1001)
        refused = await refusal(call(service, "SubmitBatch", too_many))
        assert refused == ("INVALID_ARGUMENT", "BATCH_SIZE")

    play(scenario)


def test_pages_go_from_the_newest_to_the_oldest(play: Play) -> None:
    async def scenario(service: Service) -> None:
        keys = [await service.submit(ACME) for _ in range(5)]
        seen, token = [], ""
        while True:
            page = pb.ListWorkloadsRequest(page_size=2, page_token=token)
            answer = await call(service, "ListWorkloads", page)
            seen += [workload.workload_id for workload in answer.workloads]
            if not (token := answer.next_page_token):
                break
        assert seen == keys[::-1]
        for bad in ("x", "-1", "1" * 19, "\u0663"):
            page = pb.ListWorkloadsRequest(page_token=bad)
            refused = await refusal(call(service, "ListWorkloads", page))
            assert refused == ("INVALID_ARGUMENT", "PAGE_TOKEN")
        theirs = service.operator.ListWorkloads(pb.ListWorkloadsRequest(tenant_id=ACME), timeout=5)
        assert len((await theirs).workloads) == 5
        whose = service.operator.ListWorkloads(pb.ListWorkloadsRequest(), timeout=5)
        assert await refusal(whose) == ("INVALID_ARGUMENT", "TENANT")

    play(scenario)


def test_an_operator_changes_an_envelope_and_a_tenant_cannot(play: Play) -> None:
    async def scenario(service: Service) -> None:
        wanted = workload_pb2.Envelope(
            tenant_id=ACME, gpu_quota={"H100": 16}, tier="premium", traits=["big"], version=1
        )
        request = pb.SetEnvelopeRequest(envelope=wanted)
        forbidden = await refusal(call(service, "SetEnvelope", request, role="tenant_admin"))
        assert forbidden[0] == "PERMISSION_DENIED"
        answer = await service.operator.SetEnvelope(request, timeout=5)
        assert (answer.envelope.version, answer.envelope.gpu_quota["H100"]) == (2, 16)
        stale = await refusal(service.operator.SetEnvelope(request, timeout=5))
        assert stale == ("FAILED_PRECONDITION", "ENVELOPE_VERSION")
        mine = await call(service, "GetEnvelope", pb.GetEnvelopeRequest(), role="tenant_viewer")
        assert mine.envelope == answer.envelope

    play(scenario)


def test_a_suspended_tenant_is_refused_until_it_is_resumed(play: Play) -> None:
    async def scenario(service: Service) -> None:
        await service.react("gateway.tenant.suspended", ACME, ACME, reason="unpaid")
        refused = await refusal(submit(service, []))
        assert refused == ("FAILED_PRECONDITION", "TENANT_SUSPENDED")
        await service.react("gateway.tenant.resumed", ACME, ACME)
        await submit(service, [])

    play(scenario)


async def call(service: Service, method: str, request: Any, role: str = "tenant_user") -> Any:
    stub = getattr(service.gateway, method)
    return await stub(request, timeout=5, metadata=as_tenant(ACME, role))


async def submit(service: Service, metadata: list[tuple[str, str]], **job: Any) -> Any:
    request = pb.SubmitWorkloadRequest(intent=message(**job))
    return await service.gateway.SubmitWorkload(
        request, timeout=5, metadata=[*as_tenant(ACME), *metadata]
    )


async def get(service: Service, workload_id: str) -> workload_pb2.Workload:
    request = pb.GetWorkloadRequest(workload_id=workload_id)
    answer = await call(service, "GetWorkload", request, role="tenant_viewer")
    found: workload_pb2.Workload = answer.workload
    return found
