"""Stand-ins for the other services: real gRPC servers that answer simply, behind the real guard.

They keep tenants apart as the real ones do. Methods that no test cares about are not here;
``crowd`` answers them with an empty message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from chassis.callers import caller
from chassis.errors import Invalid, NotFound, Refused
from leasehold.admission.v1 import admission_service_pb2 as admission
from leasehold.admission.v1 import workload_pb2
from leasehold.billing.v1 import billing_service_pb2 as billing
from leasehold.billing.v1 import proof_service_pb2 as proof
from leasehold.placement.v1 import node_pb2
from leasehold.placement.v1 import placement_service_pb2 as placement

Context = grpc.aio.ServicerContext


class Metadata:
    """What the last call of each method carried."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}

    def note(self, method: str, context: Context) -> None:
        self.seen[method] = dict(context.invocation_metadata() or ())


class Admission:
    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.workloads: dict[str, workload_pb2.Workload] = {}
        self.envelopes: dict[str, workload_pb2.Envelope] = {}

    async def SubmitWorkload(
        self, request: admission.SubmitWorkloadRequest, context: Context
    ) -> admission.SubmitWorkloadResponse:
        self.metadata.note("SubmitWorkload", context)
        if request.intent.name == "never":
            raise Refused("no node has so many", code="NEVER_FITS", gpus_largest="8")
        if request.intent.name == "owned":
            field = "training_job.environment.LD_PRELOAD"
            raise Invalid("LD_PRELOAD is set by the platform", code="PLATFORM_OWNED", field=field)
        workload = workload_pb2.Workload(
            workload_id=f"wl_{len(self.workloads) + 1:04d}",
            tenant_id=caller(context).tenant_id,
            intent=request.intent,
            state=workload_pb2.WORKLOAD_STATE_QUEUED,
            reason=workload_pb2.PENDING_REASON_QUOTA,
            position=1,
        )
        self.workloads[workload.workload_id] = workload
        return admission.SubmitWorkloadResponse(workload=workload)

    async def GetWorkload(
        self, request: admission.GetWorkloadRequest, context: Context
    ) -> admission.GetWorkloadResponse:
        found = self.workloads.get(request.workload_id)
        if found is None or caller(context).scope("") not in ("", found.tenant_id):
            raise NotFound(f"no workload {request.workload_id}", code="WORKLOAD_NOT_FOUND")
        return admission.GetWorkloadResponse(workload=found)

    async def ListWorkloads(
        self, request: admission.ListWorkloadsRequest, context: Context
    ) -> admission.ListWorkloadsResponse:
        tenant = caller(context).scope("")
        mine = [one for one in self.workloads.values() if tenant in ("", one.tenant_id)]
        start = int(request.page_token or 0)
        end = start + request.page_size
        token = str(end) if end < len(mine) else ""
        return admission.ListWorkloadsResponse(workloads=mine[start:end], next_page_token=token)

    async def GetEnvelope(
        self, request: admission.GetEnvelopeRequest, context: Context
    ) -> admission.GetEnvelopeResponse:
        return admission.GetEnvelopeResponse(envelope=self._envelope(request.tenant_id, context))

    async def SetEnvelope(
        self, request: admission.SetEnvelopeRequest, context: Context
    ) -> admission.SetEnvelopeResponse:
        wanted = request.envelope
        current = self._envelope(wanted.tenant_id, context)
        if wanted.version != current.version:
            raise Refused(f"it has version {current.version}", code="ENVELOPE_VERSION")
        wanted.version += 1
        self.envelopes[wanted.tenant_id] = wanted
        return admission.SetEnvelopeResponse(envelope=wanted)

    def _envelope(self, tenant_id: str, context: Context) -> workload_pb2.Envelope:
        tenant_id = caller(context).scope(tenant_id)
        start = workload_pb2.Envelope(tenant_id=tenant_id, gpu_quota={"H100": 8}, version=1)
        return self.envelopes.setdefault(tenant_id, start)


class Placement:
    def __init__(self) -> None:
        self.leases: dict[str, node_pb2.Lease] = {}
        self.output: dict[str, bytes] = {}
        self.following = 0
        self.ended = asyncio.Event()

    async def GetLease(
        self, request: placement.GetLeaseRequest, context: Context
    ) -> placement.GetLeaseResponse:
        found = self.leases.get(request.lease_id)
        if found is None or caller(context).scope("") not in ("", found.tenant_id):
            raise NotFound(f"no lease {request.lease_id}", code="LEASE_NOT_FOUND")
        return placement.GetLeaseResponse(lease=found)

    async def ReadLogs(
        self, request: placement.ReadLogsRequest, context: Context
    ) -> AsyncIterator[placement.ReadLogsResponse]:
        data = self.output[request.lease_id]
        for offset in range(request.offset, len(data), 5):
            yield placement.ReadLogsResponse(offset=offset, data=data[offset : offset + 5])
        if request.follow:
            self.following += 1
            try:
                await self.ended.wait()
            finally:
                self.following -= 1


class Billing:
    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.away = False

    async def TopUp(self, request: billing.TopUpRequest, context: Context) -> billing.TopUpResponse:
        known = self.balances.get(request.tenant_id, 0)
        self.balances[request.tenant_id] = known + request.amount_nanos
        return billing.TopUpResponse(balance=self._balance(request.tenant_id))

    async def GetBalance(
        self, request: billing.GetBalanceRequest, context: Context
    ) -> billing.GetBalanceResponse:
        tenant_id = caller(context).scope(request.tenant_id)
        return billing.GetBalanceResponse(balance=self._balance(tenant_id))

    async def GetInvoiceProof(
        self, request: proof.GetInvoiceProofRequest, context: Context
    ) -> proof.GetInvoiceProofResponse:
        return proof.GetInvoiceProofResponse(invoice='{"number": 1}')

    async def ListPrices(
        self, request: billing.ListPricesRequest, context: Context
    ) -> billing.ListPricesResponse:
        if self.away:
            raise ZeroDivisionError("a bug with a secret in it")
        price = billing.Price(gpu_model="H100", price_nanos=2_490_000_000, per_gpu_us=3_600_000_000)
        return billing.ListPricesResponse(prices=[price])

    async def PublishPrice(
        self, request: billing.PublishPriceRequest, context: Context
    ) -> billing.PublishPriceResponse:
        return billing.PublishPriceResponse(price=request.price)

    def _balance(self, tenant_id: str) -> billing.Balance:
        nanos = self.balances.get(tenant_id, 0)
        return billing.Balance(
            tenant_id=tenant_id, currency="USD", prepaid_nanos=nanos, available_nanos=nanos
        )
