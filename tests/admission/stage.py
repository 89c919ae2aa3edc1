"""Admission without a server: commands one at a time on a log in memory, each a second later."""

from collections.abc import Callable
from typing import Any, TypeVar

from admission.application import Admission
from admission.domain import Envelope, Workload
from admission.holds import Answer, Candidate, Keeper
from admission.policy import Denial
from admission.rounds import Rounds, Settled
from chassis.clock import SECOND
from chassis.memory import Direct, MemoryLog

NOON = 1_767_268_800_000_000
ACME, BETA = "ten_acme", "ten_beta"

T = TypeVar("T")


class Stage:
    def __init__(self, *tenants: str, quota: int = 8) -> None:
        self.log = MemoryLog()
        self.admission = Admission(self.log)
        self.admission.starter_quota = {"H100": quota}
        self.rounds = Rounds(self.admission)
        self.at = NOON
        self._direct = Direct(self.admission, self.log)
        self._workloads = 0
        for tenant_id in tenants:
            self.run(lambda at, tenant_id=tenant_id: self.admission.enroll(tenant_id, at=at))

    def run(self, command: Callable[[int], T]) -> T:
        self.at += SECOND
        return self._direct(lambda: command(self.at))

    def topics(self) -> list[str]:
        """What happened, shortest form."""
        return [event.topic.removeprefix("admission.") for event in self.log.events]

    def submit(self, tenant_id: str = ACME, gpu_count: int = 1, **job: Any) -> str:
        self._workloads += 1
        workload_id = f"wl_{self._workloads}"
        document = intent(gpu_count=gpu_count, **job)
        self.run(lambda at: self.admission.submit(workload_id, tenant_id, document, at=at))
        return workload_id

    def set_quota(self, tenant_id: str, **gpu_quota: int) -> None:
        self.run(
            lambda at: self.admission.set_envelope(tenant_id, gpu_quota, "standard", [], at=at)
        )

    def choose(self, count_max: int = 100, *, everybody: bool = True) -> list[Candidate]:
        return self.run(lambda at: self.rounds.choose(count_max, everybody=everybody, at=at))

    def settle(self, *answers: Answer) -> Settled:
        return self.run(lambda at: self.rounds.settle(answers, at=at))

    def admit_all(self) -> list[str]:
        """Rounds with both holds for everybody who asks, until nobody is left to ask."""
        admitted: list[str] = []
        while chosen := self.choose():
            self.settle(*map(granted, chosen))
            admitted += [candidate.workload_id for candidate in chosen]
        return admitted

    def end(self, workload_id: str, cause: str = "EXITED", exit_code: int = 0) -> None:
        lease_id = self.workload(workload_id).lease_id
        self.run(lambda at: self.admission.end(lease_id, cause, exit_code, at, at=at))

    def workload(self, workload_id: str) -> Workload:
        return self.admission.workload(workload_id)

    def envelope(self, tenant_id: str) -> Envelope:
        return self.admission.envelope(tenant_id)

    def rebuilt(self) -> Admission:
        fresh = Admission(self.log)
        fresh.catch_up()
        return fresh


def intent(**job: Any) -> dict[str, Any]:
    known = {
        "command": ["python", "train.py"],
        "environment": {"EPOCHS": "3"},
        "gpu_model": "H100",
        "gpu_count": 1,
        "seconds_max": 3600,
    }
    return {
        "name": "train",
        "project": "vision",
        "env": "dev",
        "type": "training-job",
        "training_job": known | job,
        "traits": [],
    }


def granted(candidate: Candidate) -> Answer:
    return Answer(candidate, holds={Keeper.PLACEMENT, Keeper.BILLING})


def denied(candidate: Candidate, denial: Denial, *holds: Keeper) -> Answer:
    return Answer(candidate, holds=set(holds), denial=denial)
