"""An invoice: one line for each lease, each rounded once to what the currency can pay.

What rounding added or took away is posted with the invoice, so that income is what was invoiced.
An invoice is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from billing import postings
from billing.domain.meter import Meter
from billing.money import payable
from billing.postings import Posting
from chassis.aggregates import Aggregate, FirstEvent

Line = dict[str, Any]

LINES_MAX = 1_000


def invoice_id(tenant_id: str, number: int) -> str:
    return f"inv_{tenant_id.removeprefix('ten_')}_{number:06d}"


class Invoice(Aggregate):
    TOPIC = "billing.invoice"

    def __init__(
        self,
        tenant_id: str,
        number: int,
        currency: str,
        lines: list[Line],
        total_nanos: int,
        timestamp: int,
    ) -> None:
        self.tenant_id = tenant_id
        self.number = number
        self.currency = currency
        self.lines = lines
        self.total_nanos = total_nanos
        self.issued_at = timestamp

    class Issued(FirstEvent):
        TOPIC = "billing.invoice.issued"
        tenant_id: str
        number: int
        currency: str
        lines: list[Line]
        total_nanos: int
        postings: list[Posting]

    @classmethod
    def issue(cls, tenant_id: str, number: int, meters: Sequence[Meter], *, at: int) -> Invoice:
        """Bill closed meters of one currency, in an order that does not depend on how they came."""
        ordered = sorted(meters, key=lambda meter: (meter.activated_at, meter.lease_id))
        currency = ordered[0].currency
        lines = [line(number, meter) for number, meter in enumerate(ordered, 1)]
        residuals: dict[str, int] = {}
        for row in lines:
            residual = row["exact_nanos"] - row["amount_nanos"]
            residuals[row["gpu_model"]] = residuals.get(row["gpu_model"], 0) + residual
        return cls._create(
            cls.Issued,
            id=invoice_id(tenant_id, number),
            tenant_id=tenant_id,
            number=number,
            currency=currency,
            lines=lines,
            total_nanos=sum(row["amount_nanos"] for row in lines),
            postings=postings.round_lines(currency, residuals),
            timestamp=at,
        )

    def facts(self) -> dict[str, Any]:
        names = ("tenant_id", "number", "currency", "lines", "total_nanos", "issued_at")
        return {"invoice_id": self.id} | {name: getattr(self, name) for name in names}


def line(number: int, meter: Meter) -> Line:
    return {
        "line": number,
        "lease_id": meter.lease_id,
        "workload_id": meter.workload_id,
        "project": meter.project,
        "gpu_model": meter.gpu_model,
        "gpu_count": meter.gpu_count,
        "activated_at": meter.activated_at,
        "ended_at": meter.activated_at + meter.lease_us,
        "gpu_us": meter.gpu_count * meter.lease_us,
        "price_nanos": meter.price_nanos,
        "per_gpu_us": meter.per_gpu_us,
        "exact_nanos": meter.amount_nanos,
        "amount_nanos": payable(meter.amount_nanos, meter.currency),
    }
