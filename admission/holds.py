"""The words in which admission and the keepers of holds talk about one candidate. Pure.

Placement holds GPUs, billing holds money, both under the same lease id. A denial with reason
HELD means that an answer is missing: the hold may exist, so it is asked for again under the same
id and never given up by guessing.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from admission.intents import Request
from admission.policy import Denial, PendingReason


class Keeper(StrEnum):
    PLACEMENT = "placement"
    BILLING = "billing"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that may be admitted if both holds can be had."""

    workload_id: str
    tenant_id: str
    lease_id: str
    request: Request
    # The workload's last event, which the holds follow from.
    causation_id: str = ""
    first: Keeper = Keeper.PLACEMENT
    # Whose budget is asked, beside the tenant's.
    project: str = ""


@dataclass(slots=True)
class Answer:
    """What came of asking for a candidate's holds."""

    candidate: Candidate
    holds: set[Keeper] = field(default_factory=set)
    denial: Denial | None = None
    # The lease id was used up by an earlier try.
    lapsed: bool = False

    @property
    def refused(self) -> bool:
        return self.lapsed or self.denial is not None

    @property
    def unclear(self) -> bool:
        return self.denial is not None and self.denial.reason is PendingReason.HELD


def silence(keeper: Keeper) -> Denial:
    return Denial(PendingReason.HELD, f"{keeper} does not answer")
