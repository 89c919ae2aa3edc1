"""A provider's bills, and what was accepted of them. A bill posts nothing by itself.

What an acceptance posts is the difference to what was accepted before for the same machine and
day, so accepting twice posts once.
"""

from __future__ import annotations

from typing import Any

from billing import postings
from billing.domain.provider_meter import accrued
from billing.postings import Posting
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Refused


class BillReused(Refused):
    default_code = "BILL_REUSED"


def bill_key(source_id: str, bill_id: str) -> str:
    return f"prb_{source_id}_{bill_id}"


class ProviderBill(Aggregate):
    TOPIC = "billing.provider_bill"

    def __init__(
        self,
        bill_id: str,
        source_id: str,
        currency: str,
        lines_sha256: str,
        lines: list[dict[str, Any]],
        total_nanos: int,
    ) -> None:
        self.bill_id = bill_id
        self.source_id = source_id
        self.currency = currency
        self.lines_sha256 = lines_sha256
        self.line_count = len(lines)
        self.total_nanos = total_nanos

    class Imported(FirstEvent):
        TOPIC = "billing.provider_bill.imported"
        bill_id: str
        source_id: str
        currency: str
        lines_sha256: str
        lines: list[dict[str, Any]]
        total_nanos: int

    def refuse_another(self, lines_sha256: str, currency: str) -> None:
        if (self.lines_sha256, self.currency) != (lines_sha256, currency):
            raise BillReused(f"bill {self.bill_id!r} of this source was imported with other lines")


class ProviderMatch(Aggregate):
    """What was accepted of one machine's bill for one day."""

    TOPIC = "billing.provider_match"

    def __init__(self, source_id: str, provider_id: str, day: int) -> None:
        self.source_id = source_id
        self.provider_id = provider_id
        self.day = day
        self.accepted_nanos = 0

    class Opened(FirstEvent):
        TOPIC = "billing.provider_match.opened"
        source_id: str
        provider_id: str
        day: int

    def accept(
        self, outcome: str, account: str, *, expected: int, billed: int, currency: str, at: int
    ) -> int:
        """Post what is not posted yet of the difference; answers how much that was."""
        difference = billed - expected - self.accepted_nanos
        if difference:
            self.trigger_event(
                self.Accepted,
                outcome=outcome,
                expected_nanos=expected,
                billed_nanos=billed,
                difference_nanos=difference,
                currency=currency,
                postings=postings.balanced(
                    (account, difference), (accrued(self.source_id), -difference)
                ),
                timestamp=at,
            )
        return difference

    class Accepted(Aggregate.Event):
        TOPIC = "billing.provider_match.accepted"
        outcome: str
        expected_nanos: int
        billed_nanos: int
        difference_nanos: int
        currency: str
        postings: list[Posting]

        def apply(self, match: ProviderMatch) -> None:
            match.accepted_nanos += self.difference_nanos
