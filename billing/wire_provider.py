"""Protobuf to the provider side's values and back. Says no to what makes no sense at all. Pure."""

import re
from datetime import UTC, date, datetime
from typing import Any

from billing import wire
from billing.margin import By, Margin
from billing.money import HOUR_US, minor_unit
from billing.provider_match import LeaseDay, MachineDay
from chassis.errors import Invalid
from leasehold.billing.v1 import provider_service_pb2 as pb

LINES_MAX = 10_000
_AMOUNT_MAX = 10**18
_TIME_MAX = 2**53
# Ids of providers are theirs; only what an account's name or a key could not bear is refused.
_PROVIDER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_EPOCH = date(1970, 1, 1)


def bill_lines(request: pb.ImportProviderBillRequest) -> list[dict[str, Any]]:
    if not 1 <= len(request.lines) <= LINES_MAX:
        raise Invalid(f"a bill has 1 to {LINES_MAX} lines", code="LINES", field="lines")
    minor_unit(request.currency)
    wire.name(request.bill_id, "bill_id")
    wire.name(request.source_id, "source_id")
    lines = []
    for number, line in enumerate(request.lines, 1):
        provider_id(line.provider_id)
        if not 0 <= line.from_at < line.until_at < _TIME_MAX:
            raise Invalid(f"line {number} ends before it begins", code="INTERVAL", field="lines")
        if not 0 <= line.amount_nanos <= _AMOUNT_MAX:
            raise Invalid(f"line {number} is from 0 to 10^18 nano-units", code="AMOUNT")
        lines.append(
            {
                "provider_id": line.provider_id,
                "from_at": line.from_at,
                "until_at": line.until_at,
                "amount_nanos": line.amount_nanos,
            }
        )
    return lines


def provider_id(text: str) -> str:
    if not _PROVIDER_ID.fullmatch(text):
        raise Invalid(f"provider_id is no id: {text[:40]!r}", code="NAME", field="provider_id")
    return text


def day(text: str) -> int:
    """Days since 1970 of a date such as 2026-11-18."""
    try:
        found = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise Invalid("day is a date such as 2026-11-18", code="DAY", field="day") from None
    return (found - _EPOCH).days


def by(text: str) -> By:
    if text not in tuple(By):
        raise Invalid(f"by is one of {', '.join(By)}", code="BY", field="by")
    return By(text)


def hours(request: pb.GetMarginRequest, now: int) -> tuple[int, int]:
    """Whole hours; the one that runs counts as far as it is over."""
    until_at = request.until_at or -(-now // HOUR_US) * HOUR_US
    if not 0 <= request.from_at <= until_at < _TIME_MAX:
        raise Invalid("the hours end before they begin", code="HOURS", field="until_at")
    return request.from_at, until_at


def cost(meter_id: str, row: dict[str, Any]) -> pb.ProviderCost:
    facts = {name: value for name, value in row.items() if name != "accrued_us"}
    return pb.ProviderCost(
        meter_id=meter_id, accrued_until=row["started_at"] + row["accrued_us"], **facts
    )


def machine(row: MachineDay) -> pb.MachineMatch:
    return pb.MachineMatch(
        source_id=row.source_id,
        provider_id=row.provider_id,
        instance_id=row.instance_id,
        outcome=f"MATCH_OUTCOME_{row.outcome}",
        present_us=row.present_us,
        billed_us=row.billed_us,
        leased_gpu_us=row.leased_gpu_us,
        metered_gpu_us=row.metered_gpu_us,
        expected_nanos=row.expected_nanos,
        billed_nanos=row.billed_nanos,
        difference_nanos=row.difference_nanos,
        accepted_nanos=row.accepted_nanos,
        currency=row.currency,
    )


def lease(row: LeaseDay) -> pb.LeaseMatch:
    return pb.LeaseMatch(
        lease_id=row.lease_id,
        tenant_id=row.tenant_id,
        outcome=f"MATCH_OUTCOME_{row.outcome}",
        leased_gpu_us=row.leased_gpu_us,
        metered_gpu_us=row.metered_gpu_us,
        provider_id=row.provider_id,
        provider_cost_nanos=row.provider_cost_nanos,
    )


def margin(row: Margin) -> pb.MarginRow:
    return pb.MarginRow(
        key=row.key,
        currency=row.currency,
        revenue_nanos=row.revenue_nanos,
        provider_cost_nanos=row.provider_cost_nanos,
        warm_pool_nanos=row.warm_pool_nanos,
        leak_nanos=row.leak_nanos,
        margin_nanos=row.margin_nanos,
    )
