"""What an account does for commitments and for payments in another currency: two events."""

from __future__ import annotations

from typing import Any

from billing.postings import Posting
from chassis.aggregates import Aggregate


class CommitmentSettled(Aggregate.Event):
    TOPIC = "billing.account.commitment_settled"
    commitment_id: str
    hour: int
    used_gpu_us: int
    unused_gpu_us: int
    used_nanos: int
    unused_nanos: int
    covered: list[dict[str, Any]]
    currency: str
    postings: list[Posting]

    def apply(self, account: Any) -> None:
        account._post(self.postings)


class Exchanged(Aggregate.Event):
    TOPIC = "billing.account.exchanged"
    reference: str
    amount_nanos: int
    currency: str
    credited_nanos: int
    credited_currency: str
    rate_n: int
    rate_d: int
    source: str
    quoted_at: int
    postings: list[Posting]

    def apply(self, account: Any) -> None:
        """The money that reaches the account is the top-up that goes with it."""
