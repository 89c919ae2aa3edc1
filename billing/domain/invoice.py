"""An invoice: lines of leases, each rounded once to what the currency can pay.

An invoice posts nothing itself: what was used is posted with its slices, and what rounding left
is settled with the tenant by its account. Lines and total are never changed; a credit note takes
back part of a line, never more than what remains of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from billing.domain.lines import Line, TaxRule, numbered, untaxed
from billing.money import minor_unit
from billing.postings import Posting
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Invalid, NotFound, Refused

LINES_MAX = 1_000
REASON_LENGTH_MAX = 200


class CreditBeyondLine(Refused):
    default_code = "CREDIT_BEYOND_LINE"


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
        period_id: str = "",
        tax_nanos: int = 0,
        tax_rounding: str = "",
    ) -> None:
        self.tenant_id = tenant_id
        self.number = number
        self.currency = currency
        self.lines = lines
        self.total_nanos = total_nanos
        self.issued_at = timestamp
        self.period_id = period_id
        self.tax_nanos = tax_nanos
        self.tax_rounding = tax_rounding
        self.credits: list[dict[str, Any]] = []

    class Issued(FirstEvent):
        TOPIC = "billing.invoice.issued"
        tenant_id: str
        number: int
        currency: str
        lines: list[Line]
        total_nanos: int
        postings: list[Posting]
        period_id: str
        tax_nanos: int
        tax_rounding: str

    @classmethod
    def issue(
        cls,
        tenant_id: str,
        number: int,
        currency: str,
        lines: Sequence[Line],
        *,
        period_id: str = "",
        tax: TaxRule = untaxed,
        at: int,
    ) -> Invoice:
        """Lines of one currency; what tax they bear is asked once, here, and kept."""
        kept = [row | {"tax_nanos": tax(row, currency)} for row in numbered(lines)]
        taxes = sum(row["tax_nanos"] for row in kept)
        return cls._create(
            cls.Issued,
            id=invoice_id(tenant_id, number),
            tenant_id=tenant_id,
            number=number,
            currency=currency,
            lines=kept,
            total_nanos=sum(row["amount_nanos"] for row in kept) + taxes,
            postings=[],
            period_id=period_id,
            tax_nanos=taxes,
            tax_rounding="LINE",
            timestamp=at,
        )

    @property
    def residual_nanos(self) -> int:
        """What was used and is not on the lines; negative if they say more."""
        return sum(row["exact_nanos"] - row["amount_nanos"] for row in self.lines)

    def has(self, line: int) -> bool:
        return 1 <= line <= len(self.lines)

    def remaining(self, line: int) -> int:
        """What of a line's amount was not credited."""
        if not self.has(line):
            raise NotFound(f"{self.id} has no line {line}", code="LINE_NOT_FOUND")
        credited = sum(note["amount_nanos"] for note in self.credits if note["line"] == line)
        return int(self.lines[line - 1]["amount_nanos"]) - int(credited)

    def credit(
        self,
        line: int,
        amount_nanos: int,
        reason: str,
        *,
        windows: Sequence[dict[str, Any]] = (),
        at: int,
    ) -> str:
        """Write a credit note over part of a line; answers its id."""
        if not 0 < len(reason) <= REASON_LENGTH_MAX:
            raise Invalid("a credit note has a reason of at most 200 characters", code="REASON")
        if amount_nanos <= 0 or amount_nanos % minor_unit(self.currency):
            raise Invalid("a credit is above 0 and payable", code="AMOUNT")
        if amount_nanos > (left := self.remaining(line)):
            raise CreditBeyondLine(f"{left} nano-units remain of line {line}")
        credit_note_id = f"crn_{self.id.removeprefix('inv_')}_{len(self.credits) + 1}"
        self.trigger_event(
            self.Credited,
            credit_note_id=credit_note_id,
            line=line,
            amount_nanos=amount_nanos,
            currency=self.currency,
            reason=reason,
            windows=list(windows),
            timestamp=at,
        )
        return credit_note_id

    class Credited(Aggregate.Event):
        TOPIC = "billing.invoice.credited"
        credit_note_id: str
        line: int
        amount_nanos: int
        currency: str
        reason: str
        windows: list[dict[str, Any]]

        def apply(self, invoice: Invoice) -> None:
            invoice.credits.append(credit_note(self))

    def facts(self) -> dict[str, Any]:
        names = (
            "tenant_id", "number", "currency", "lines", "total_nanos", "issued_at", "period_id",
            "tax_nanos", "tax_rounding", "credits",
        )  # fmt: skip
        return {"invoice_id": self.id} | {name: getattr(self, name) for name in names}


def credit_note(event: Any) -> dict[str, Any]:
    names = ("credit_note_id", "line", "amount_nanos", "currency", "reason", "windows")
    return {name: getattr(event, name) for name in names} | {"issued_at": event.timestamp}
