"""The running platform: batched and single calls over mutual TLS, and memory by process."""

import asyncio
import re
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.results import Results, Row
from chassis.channels import Channels
from chassis.identity import Identity
from leasehold.admission.v1 import admission_service_pb2 as admission
from leasehold.admission.v1.admission_service_pb2_grpc import AdmissionServiceStub
from leasehold.admission.v1.intent_pb2 import Intent, TrainingJob
from leasehold.billing.v1 import billing_service_pb2 as billing
from leasehold.billing.v1.billing_service_pb2_grpc import BillingServiceStub
from leasehold.gateway.v1 import gateway_service_pb2 as gateway
from leasehold.gateway.v1.gateway_service_pb2_grpc import GatewayServiceStub
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import free_base
from leasehold.launcher.settings import PlatformSettings

BATCH = 250
BATCHES = 40
CALLS = 1_000
ABREAST = 4


def measure(results: Results) -> None:
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as folder:
        settings = PlatformSettings(state=Path(folder) / "state", port_base=free_base())
        platform = Platform(settings)
        began = time.perf_counter()
        platform.start()
        results.add(Row("platform ready, first start", time.perf_counter() - began, "s"))
        try:
            asyncio.run(_calls(platform, results))
            _memory(platform, results)
        finally:
            platform.stop()


async def _calls(platform: Platform, results: Results) -> None:
    peers = platform.addresses()["peers"]
    as_gateway = Channels(Identity(platform.identities.of("gateway")), peers)
    tenant_id = await _tenant(GatewayServiceStub(as_gateway.get("gateway")))
    spoken_for = [
        ("x-leasehold-role", "tenant_admin"),
        ("x-leasehold-tenant", tenant_id),
        ("x-leasehold-actor", f"tenant:{tenant_id}"),
    ]
    submit = AdmissionServiceStub(as_gateway.get("admission"))
    await _wait_for_envelope(submit, tenant_id, spoken_for)
    results.add(
        Row(
            "submitted by batch RPC, durable",
            await _batched(submit, spoken_for),
            "/s",
            note=f"{BATCH} intents a call",
        )
    )
    read = BillingServiceStub(as_gateway.get("billing"))
    for name, call in (
        ("unary read", lambda: read.ListPrices(billing.ListPricesRequest(), metadata=spoken_for)),
        (
            "unary durable command",
            lambda: submit.SubmitWorkload(_one("unary"), metadata=spoken_for, timeout=10),
        ),
    ):
        seconds = []
        for _ in range(CALLS):
            began = time.perf_counter()
            await call()
            seconds.append(time.perf_counter() - began)
        cuts = statistics.quantiles(seconds, n=100)
        results.add(Row(f"{name}, p50", cuts[49] * 1000, "ms"))
        results.add(Row(f"{name}, p99", cuts[98] * 1000, "ms"))
    await as_gateway.close()


async def _tenant(stub: GatewayServiceStub) -> str:
    answer = await stub.SignUpTenant(gateway.SignUpTenantRequest(name="bench"), timeout=10)
    return str(answer.tenant.tenant_id)


async def _wait_for_envelope(
    stub: AdmissionServiceStub, tenant_id: str, metadata: list[tuple[str, str]]
) -> None:
    request = admission.GetEnvelopeRequest(tenant_id=tenant_id)
    for _ in range(200):
        try:
            await stub.GetEnvelope(request, metadata=metadata)
            return
        except Exception:
            await asyncio.sleep(0.05)
    raise RuntimeError("admission never heard of the tenant")


async def _batched(stub: AdmissionServiceStub, metadata: list[tuple[str, str]]) -> float:
    requests = [
        admission.SubmitBatchRequest(
            intents=[_intent(f"batch-{number}-{one}") for one in range(BATCH)]
        )
        for number in range(BATCHES)
    ]
    waiting = iter(requests)

    async def caller() -> None:
        for request in waiting:
            answer = await stub.SubmitBatch(request, metadata=metadata, timeout=60)
            assert all(result.workload_id for result in answer.results)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(ABREAST)))
    return BATCH * BATCHES / (time.perf_counter() - began)


def _one(name: str) -> admission.SubmitWorkloadRequest:
    return admission.SubmitWorkloadRequest(intent=_intent(name))


def _intent(name: str) -> Intent:
    job = TrainingJob(command=["true"], gpu_model="H100", gpu_count=1, seconds_max=60)
    return Intent(name=name, project="default", env="dev", type="training-job", training_job=job)


def _memory(platform: Platform, results: Results) -> None:
    for process, url in platform.addresses()["metrics"].items():
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        found = re.search(r"^process_resident_memory_bytes ([\d.e+]+)$", text, re.MULTILINE)
        assert found is not None
        results.add(Row(f"memory of {process}", float(found[1]) / 1e6, "MB"))
