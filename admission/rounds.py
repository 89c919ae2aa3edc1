"""One round of admission: whom to ask holds for, and what follows from the answers.

Order is kept here. Tenants are considered by the place of their first workload; a tenant that is
refused leaves the round without stopping others; within a tenant nobody passes. A round looks
only at tenants whose situation changed, unless it is told to look at everybody, and it records
an event only for a decision.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from admission import policy
from admission.application import Admission
from admission.domain import Workload
from admission.holds import Answer, Candidate, Keeper
from admission.policy import Allowance, Denial, PendingReason


@dataclass(slots=True)
class Settled:
    """What a round came to: how many were admitted, which holds are not needed, is there more."""

    admitted: int = 0
    release: dict[Keeper, list[str]] = field(default_factory=dict)
    more: bool = False


class Rounds:
    """Both methods are commands: they run on the writer's thread."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def choose(self, count_max: int, *, everybody: bool, at: int) -> list[Candidate]:
        """Those to ask holds for, in order; whom a rule stops is deferred at once."""
        queue = self._admission.queue
        heads = [
            (place, tenant_id)
            for tenant_id in self._take_woken(everybody)
            if (place := queue.head(tenant_id)) is not None
        ]
        heapify(heads)
        runs: dict[str, _Run] = {}
        chosen: list[Candidate] = []
        while heads and len(chosen) < count_max:
            place, tenant_id = heappop(heads)
            run = runs.setdefault(tenant_id, _Run(self._admission.allowance(tenant_id)))
            if candidate := self._candidate(queue.at(place), run, at):
                chosen.append(candidate)
                if (behind := queue.behind(tenant_id, place)) is not None:
                    heappush(heads, (behind, tenant_id))
        # Those who did not get their turn are looked at in the next round.
        self._admission.woken.tenants.update(t for _, t in heads if t not in runs)
        return chosen

    def settle(self, answers: Iterable[Answer], *, at: int) -> Settled:
        """Admit who has both holds and nobody refused before him; say why of the others."""
        settled = Settled()
        ready: list[Answer] = []
        blocked: set[str] = set()
        for answer in answers:
            tenant_id = answer.candidate.tenant_id
            if tenant_id in blocked:
                self._refuse(answer, policy.BEHIND, settled, at)
            elif answer.refused:
                blocked.add(tenant_id)
                self._refuse(answer, answer.denial, settled, at)
            else:
                ready.append(answer)
        verdicts = self._admission.admit((a.candidate.lease_id for a in ready), at=at)
        for answer in ready:
            lease_id = answer.candidate.lease_id
            denial = verdicts.get(lease_id)
            if denial or lease_id not in verdicts:
                self._refuse(answer, denial, settled, at)
            else:
                settled.admitted += 1
                self._admission.woken.tenants.add(answer.candidate.tenant_id)
        settled.more = bool(self._admission.woken.tenants)
        return settled

    def _take_woken(self, everybody: bool) -> Iterable[str]:
        woken = self._admission.woken
        everybody = everybody or woken.everybody
        tenants, woken.tenants, woken.everybody = woken.tenants, set(), False
        return self._admission.queue.tenants() if everybody else tenants

    def _candidate(self, workload_id: str, run: "_Run", at: int) -> Candidate | None:
        workload = self._admission.get(Workload, workload_id)
        request = workload.request
        denial = policy.denial(request, run.allowance)
        if run.last is None:
            # Only the first of a tenant is deferred: what holds for those behind it depends on
            # what becomes of it.
            if denial:
                self._admission.defer(workload_id, denial, at=at)
            run.first = _first_keeper(workload)
        if denial or (run.last and not policy.extends(run.last.request, request)):
            return None
        run.allowance = run.allowance.after(request)
        run.last = Candidate(
            workload_id,
            workload.tenant_id,
            workload.lease_id_next,
            request,
            self._admission.last_event(workload),
            run.first,
            workload.intent.get("project", ""),
        )
        return run.last

    def _refuse(self, answer: Answer, denial: Denial | None, settled: Settled, at: int) -> None:
        candidate = answer.candidate
        workload = self._admission.get(Workload, candidate.workload_id)
        if not answer.unclear:
            # One hold that lapsed takes the other with it, which may be from an earlier try.
            for keeper in Keeper if answer.lapsed else answer.holds:
                settled.release.setdefault(keeper, []).append(candidate.lease_id)
            if answer.holds or answer.lapsed:
                cause = denial.reason.value if denial else "LAPSED"
                workload.lose_hold(candidate.lease_id, cause, at=at)
        if denial:
            workload.defer(denial, at=at)
        self._admission.save(workload)


@dataclass(slots=True)
class _Run:
    """What one tenant's candidates of a round add up to."""

    allowance: Allowance
    first: Keeper = Keeper.PLACEMENT
    last: Candidate | None = None


def _first_keeper(workload: Workload) -> Keeper:
    """Who refused last is asked first, so that no hold is placed and released at each try."""
    return Keeper.BILLING if workload.reason == PendingReason.BUDGET else Keeper.PLACEMENT
