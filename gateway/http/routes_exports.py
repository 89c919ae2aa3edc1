"""Files for finance, passed on piece by piece as billing makes them."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response, StreamingResponse

from gateway.http.calls import rpc
from gateway.http.operations import Ask, Operation
from gateway.http.queries import TENANT, Query
from leasehold.billing.v1.exports_service_pb2 import ExportFocusRequest

EXPORT_SECONDS = 900

_EXPORT = rpc("billing", "ExportFocus")
_CSV, _PARQUET = "text/csv", "application/vnd.apache.parquet"
_BINARY = {"type": "string", "format": "binary"}
_QUERIES = (
    Query(
        "dataset",
        r"CostAndUsage|InvoiceDetail|BillingPeriod|ContractCommitment",
        "a dataset of FOCUS 1.4; CostAndUsage if none is named",
    ),
    Query("format", r"csv|parquet", "csv or parquet"),
    Query("from", r"0|[1-9][0-9]{0,15}", "charges from this microsecond UTC on"),
    Query("until", r"0|[1-9][0-9]{0,15}", "charges that begin before this microsecond UTC"),
    Query("position", r"0|[1-9][0-9]{0,15}", "as known at this position of the log"),
    TENANT,
)


def operations() -> tuple[Operation, ...]:
    async def export(ask: Ask) -> Response:
        answers = _answers(ask)
        first = await anext(answers)  # what fails, fails before the answer has begun
        return StreamingResponse(
            _pieces(answers),
            media_type=_PARQUET if ask.query.get("format") == "parquet" else _CSV,
            headers={"X-Log-Position": str(first.position)},
        )

    return (
        Operation(
            method="GET",
            path="/v1/exports/focus",
            summary="Exports a dataset of FOCUS 1.4 as a file.",
            handle=export,
            rpc=_EXPORT,
            query=_QUERIES,
            answers={_CSV: _BINARY, _PARQUET: _BINARY},
        ),
    )


def _answers(ask: Ask) -> Any:
    request = ExportFocusRequest(
        dataset=ask.query.get("dataset", ""),
        format=ask.query.get("format", ""),
        until=int(ask.query.get("until", "0")),
        tenant_id=ask.tenant if ask.own_tenant else ask.query.get("tenant", ""),
        position=int(ask.query.get("position", "0")),
        **{"from": int(ask.query.get("from", "0"))},
    )
    return ask.services.stream(
        _EXPORT, request, ask.person, request_id=ask.request_id, seconds=EXPORT_SECONDS
    )


async def _pieces(answers: AsyncGenerator[Any, None]) -> AsyncIterator[bytes]:
    async with aclosing(answers) as rest:
        async for answer in rest:
            yield answer.chunk
