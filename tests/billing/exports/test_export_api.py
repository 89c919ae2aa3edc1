"""Exports over gRPC, from PostgreSQL: who gets what, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from billing.exports.conformance import check
from leasehold.billing.v1 import billing_service_pb2
from leasehold.billing.v1 import exports_service_pb2 as pb
from leasehold.billing.v1.exports_service_pb2_grpc import ExportServiceStub
from tests.billing.serving import Service, serving
from tests.billing.test_api import BOB, EVE, funded, ran
from tests.billing.world import ACME, SECOND
from tests.calls import as_tenant, refusal

WAIT = {"timeout": 30}


@pytest.fixture
def play(
    tmp_path: Path, database_url: str
) -> Callable[[Callable[[Service], Awaitable[None]]], None]:
    def run(scenario: Callable[[Service], Awaitable[None]]) -> None:
        async def with_service() -> None:
            async with serving(tmp_path / "mesh", database_url) as service:
                await funded(service)
                await ran(service, 10 * SECOND)
                await service.gateway.IssueInvoice(billing_service_pb2.IssueInvoiceRequest(), **BOB)
                await scenario(service)

        asyncio.run(with_service())

    return run


async def file(stub: ExportServiceStub, call: dict[str, Any] = WAIT, **asked: Any) -> bytes:
    answers = stub.ExportFocus(pb.ExportFocusRequest(**asked), **call)
    return b"".join([answer.chunk async for answer in answers])


def test_finance_exports_all_and_a_tenant_its_own(play: Any, tmp_path: Path) -> None:
    async def scenario(service: Service) -> None:
        operator = ExportServiceStub(service.channel("operator"))
        gateway = ExportServiceStub(service.channel("gateway"))
        everything = await file(operator)
        assert everything.count(b"\n") == 2
        assert await file(gateway, BOB) == everything
        assert await file(operator, tenant_id=ACME) == everything
        assert (await file(gateway, EVE)).count(b"\n") == 1
        for dataset in ("CostAndUsage", "InvoiceDetail", "BillingPeriod"):
            for form in ("csv", "parquet"):
                path = tmp_path / f"{dataset}.{form}"
                path.write_bytes(await file(operator, dataset=dataset, format=form))
                assert check(path, dataset=dataset) == []
        charges, details = tmp_path / "CostAndUsage.parquet", tmp_path / "InvoiceDetail.parquet"
        assert check(charges, details=details) == []

    play(scenario)


def test_an_export_at_a_position_stays_the_same_whatever_is_recorded_later(play: Any) -> None:
    async def scenario(service: Service) -> None:
        operator = ExportServiceStub(service.channel("operator"))
        answers = operator.ExportFocus(pb.ExportFocusRequest(), **WAIT)
        position = [answer.position async for answer in answers][-1]
        before = await file(operator, position=position)
        uninvoiced = await file(operator, position=invoiced_at(service) - 1)
        assert (b"inv_" in before, b"inv_" in uninvoiced) == (True, False)
        await service.react("gateway.tenant.signed_up", "ten_eve", "ten_eve", name="eve")
        assert await file(operator, position=position) == before
        assert await file(operator, position=invoiced_at(service) - 1) == uninvoiced

    play(scenario)


def invoiced_at(service: Service) -> int:
    """Where in the log the invoice stands."""
    (row,) = service.billing.log.read(0, 1, topics=["billing.invoice.issued"])
    return int(row.position)


def test_what_cannot_be_exported_is_refused(play: Any) -> None:
    async def scenario(service: Service) -> None:
        operator = ExportServiceStub(service.channel("operator"))
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        for code, asked in {
            "DATASET": {"dataset": "Costs"},
            "FORMAT": {"format": "xlsx"},
            "RANGE": {"from": 2, "until": 1},
            "POSITION": {"position": 10**9},
        }.items():
            assert await refusal(file(operator, **asked)) == (invalid, code)
        node = ExportServiceStub(service.channel("admission"))
        status, _ = await refusal(file(node))
        assert status is grpc.StatusCode.PERMISSION_DENIED
        gateway = ExportServiceStub(service.channel("gateway"))
        status, _ = await refusal(
            file(
                gateway,
                {"metadata": as_tenant("ten_eve", "tenant_admin"), "timeout": 5},
                tenant_id=ACME,
            )
        )
        assert status is grpc.StatusCode.NOT_FOUND

    play(scenario)
