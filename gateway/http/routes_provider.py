"""What providers cost: machines, bills, matches, margins. For finance and operators."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.operations import Ask, Operation, asking
from gateway.http.queries import ID_PATTERN, Query
from leasehold.billing.v1 import provider_events_pb2 as events
from leasehold.billing.v1 import provider_service_pb2 as pb

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NANOS = r"^(0|[1-9][0-9]{0,17})$"
_MICROS = r"0|[1-9][0-9]{0,15}"
_PROVIDER_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"

SOURCE = Query("source", ID_PATTERN, "id of a source, if not all are meant")
BY = Query("by", "tenant|sku|provider", "tenant, sku or provider")
FROM = Query("from", _MICROS, "beginning of an hour, in microseconds UTC")
UNTIL = Query("until", _MICROS, "end of an hour, in microseconds UTC; now if left out")


class BillLine(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    provider_id: str = Field(pattern=_PROVIDER_ID)
    from_at: int = Field(ge=0, lt=2**53)
    until_at: int = Field(ge=0, lt=2**53)
    amount_nanos: str = Field(pattern=_NANOS)


class Bill(Body):
    bill_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")
    source_id: str = Field(pattern=f"^{ID_PATTERN}$")
    currency: str = Field(pattern="^[A-Z]{3}$")
    lines: list[BillLine] = Field(min_length=1, max_length=10_000)


class Acceptance(Body):
    source_id: str = Field(pattern=f"^{ID_PATTERN}$")
    provider_id: str = Field(pattern=_PROVIDER_ID)


def _import(ask: Ask) -> pb.ImportProviderBillRequest:
    bill: Bill = ask.body
    return pb.ImportProviderBillRequest(
        bill_id=bill.bill_id,
        source_id=bill.source_id,
        currency=bill.currency,
        lines=[_line(line) for line in bill.lines],
    )


def _line(line: BillLine) -> events.ProviderBillLine:
    facts: dict[str, Any] = line.model_dump()
    return events.ProviderBillLine(**facts | {"amount_nanos": int(line.amount_nanos)})


def operations() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/provider-costs",
            "Lists what each machine of a provider costs: leased, idle, leaked.",
            rpc("billing", "ListProviderCosts"),
            lambda ask: pb.ListProviderCostsRequest(source_id=ask.query.get("source", "")),
            query=(SOURCE,),
        ),
        asking(
            "POST",
            "/v1/provider-bills",
            "Keeps a provider's bill, to be matched; it posts nothing.",
            rpc("billing", "ImportProviderBill"),
            _import,
            status=201,
            body=Bill,
        ),
        *_matches(),
        asking(
            "GET",
            "/v1/margin",
            "Shows what was earned on what was rented, by tenant, SKU or provider.",
            rpc("billing", "GetMargin"),
            lambda ask: pb.GetMarginRequest(
                by=ask.query.get("by", "tenant"),
                from_at=int(ask.query.get("from", 0)),
                until_at=int(ask.query.get("until", 0)),
            ),
            query=(BY, FROM, UNTIL),
        ),
    )


def _matches() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/matches",
            "Compares what was metered, leased and billed on a UTC day; changes nothing.",
            rpc("billing", "MatchDay"),
            lambda ask: pb.MatchDayRequest(
                day=ask.query.get("day", ""), source_id=ask.query.get("source", "")
            ),
            query=(Query("day", _DAY, "a UTC day, such as 2026-11-18"), SOURCE),
        ),
        asking(
            "POST",
            "/v1/matches/accept",
            "Posts what a provider billed beyond what was expected, for a machine and a day.",
            rpc("billing", "AcceptMatch"),
            lambda ask: pb.AcceptMatchRequest(
                day=ask.query.get("day", ""),
                source_id=ask.body.source_id,
                provider_id=ask.body.provider_id,
            ),
            body=Acceptance,
            query=(Query("day", _DAY, "a UTC day, such as 2026-11-18"),),
        ),
    )
