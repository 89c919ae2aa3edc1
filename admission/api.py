"""The gRPC face of admission. Translates and delegates; decides nothing.

A tenant sees its own workloads only: the caller's scope goes into every question, and an id of
another tenant is not found.
"""

from collections.abc import Iterator

import grpc

from admission import wire
from admission.application import Admission
from admission.domain import Workload
from admission.metrics import WORKLOADS
from chassis import ids
from chassis.callers import caller
from chassis.edge import Edge
from chassis.errors import Invalid, ServiceError, Unavailable
from leasehold.admission.v1 import admission_service_pb2 as pb
from leasehold.admission.v1 import admission_service_pb2_grpc as pb_grpc
from leasehold.admission.v1 import workload_pb2

BATCH_MAX = 1000


class AdmissionService(pb_grpc.AdmissionServiceServicer):
    def __init__(self, admission: Admission, edge: Edge) -> None:
        self._admission = admission
        self._edge = edge

    async def SubmitWorkload(
        self, request: pb.SubmitWorkloadRequest, context: grpc.aio.ServicerContext
    ) -> pb.SubmitWorkloadResponse:
        tenant_id = caller(context).tenant_id
        intent = wire.intent(request.intent)

        def submit(at: int) -> pb.SubmitWorkloadResponse:
            workload = self._admission.submit(ids.new("wl"), tenant_id, intent, at=at)
            return pb.SubmitWorkloadResponse(workload=self._shown(workload))

        try:
            answer = await self._edge.command(context, request, pb.SubmitWorkloadResponse, submit)
        except ServiceError:
            WORKLOADS.labels("refused").inc()
            raise
        WORKLOADS.labels("submitted").inc()
        return answer

    async def SubmitBatch(
        self, request: pb.SubmitBatchRequest, context: grpc.aio.ServicerContext
    ) -> pb.SubmitBatchResponse:
        tenant_id = caller(context).tenant_id
        if len(request.intents) > BATCH_MAX:
            raise Invalid(f"a batch has at most {BATCH_MAX} intents", code="BATCH_SIZE")

        def submit(at: int) -> pb.SubmitBatchResponse:
            return pb.SubmitBatchResponse(results=self._submit_each(tenant_id, request, at))

        answer = await self._edge.command(context, request, pb.SubmitBatchResponse, submit)
        refused = sum(bool(result.error_code) for result in answer.results)
        WORKLOADS.labels("refused").inc(refused)
        WORKLOADS.labels("submitted").inc(len(answer.results) - refused)
        return answer

    async def StopWorkload(
        self, request: pb.StopWorkloadRequest, context: grpc.aio.ServicerContext
    ) -> pb.StopWorkloadResponse:
        tenant_id = caller(context).scope("")

        def stop(at: int) -> pb.StopWorkloadResponse:
            workload = self._admission.stop(request.workload_id, tenant_id, at=at)
            if workload.ended_at == at:
                WORKLOADS.labels("stopped").inc()
            return pb.StopWorkloadResponse(workload=self._shown(workload))

        return await self._edge.command(context, request, pb.StopWorkloadResponse, stop)

    async def GetWorkload(
        self, request: pb.GetWorkloadRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetWorkloadResponse:
        tenant_id = caller(context).scope("")
        workload = await self._edge.query(
            lambda: self._shown(self._admission.workload(request.workload_id, tenant_id))
        )
        return pb.GetWorkloadResponse(workload=workload)

    async def ListWorkloads(
        self, request: pb.ListWorkloadsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListWorkloadsResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        if not tenant_id:
            raise Invalid("name the tenant", code="TENANT", field="tenant_id")
        size, before = wire.page_size(request.page_size), wire.page_start(request.page_token)

        def page() -> pb.ListWorkloadsResponse:
            workloads, next_before = self._admission.page(tenant_id, size, before)
            token = str(next_before) if next_before else ""
            return pb.ListWorkloadsResponse(
                workloads=map(self._shown, workloads), next_page_token=token
            )

        return await self._edge.query(page)

    async def ExplainWorkload(
        self, request: pb.ExplainWorkloadRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExplainWorkloadResponse:
        tenant_id = caller(context).scope("")

        def explain() -> pb.ExplainWorkloadResponse:
            found = self._admission.explain(request.workload_id, tenant_id)
            return pb.ExplainWorkloadResponse(
                workload=self._shown(found.workload),
                gpus_requested=found.workload.request.gpu_count,
                quota_gpus=found.quota,
                quota_gpus_used=found.used,
                ahead=found.ahead,
                remedies=found.remedies,
                waits=map(wire.wait_interval, found.workload.waits),
            )

        return await self._edge.query(explain)

    async def GetEnvelope(
        self, request: pb.GetEnvelopeRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetEnvelopeResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        envelope = await self._edge.query(
            lambda: wire.envelope(self._admission.envelope(tenant_id))
        )
        return pb.GetEnvelopeResponse(envelope=envelope)

    async def SetEnvelope(
        self, request: pb.SetEnvelopeRequest, context: grpc.aio.ServicerContext
    ) -> pb.SetEnvelopeResponse:
        asked = request.envelope
        tenant_id = caller(context).scope(asked.tenant_id)

        def change(at: int) -> pb.SetEnvelopeResponse:
            envelope = self._admission.set_envelope(
                tenant_id,
                dict(asked.gpu_quota),
                asked.tier,
                list(asked.traits),
                version=asked.version,
                at=at,
            )
            return pb.SetEnvelopeResponse(envelope=wire.envelope(envelope))

        return await self._edge.command(context, request, pb.SetEnvelopeResponse, change)

    def _submit_each(
        self, tenant_id: str, request: pb.SubmitBatchRequest, at: int
    ) -> Iterator[pb.SubmitResult]:
        for message in request.intents:
            try:
                intent = wire.intent(message)
                workload = self._admission.submit(ids.new("wl"), tenant_id, intent, at=at)
                yield pb.SubmitResult(workload_id=workload.id)
            except Unavailable:
                # About the moment, not the intent: kept under the batch's key, it would be the
                # answer to every repetition.
                raise
            except ServiceError as error:
                yield pb.SubmitResult(error_code=error.code, error=error.message)

    def _shown(self, workload: Workload) -> workload_pb2.Workload:
        return wire.workload(workload, self._admission.position(workload))
