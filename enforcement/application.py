"""Enforcement's workflows. Readings are not events: only what follows from them is recorded."""

from chassis.application import Application, Log
from enforcement.domain import Guard, guard_id
from enforcement.policy import Sample, Streak, flaw
from enforcement.projections import Watch


class Enforcement(Application):
    service = "enforcement"
    aggregates = (Guard,)

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.watch = Watch()
        self.views = {"watch": self.watch}
        # Runtime memory, not state: after a restart a streak begins anew, and a new boot of a
        # node begins a new sequence.
        self._latest: dict[str, Sample] = {}
        self._streaks: dict[str, dict[int, Streak]] = {}
        self._seq_last: dict[tuple[str, str, int], int] = {}

    def raise_guard(
        self,
        lease_id: str,
        *,
        tenant_id: str,
        correlation_id: str,
        node_id: str,
        workload_id: str,
        slots: list[int],
        at: int,
    ) -> None:
        if self.find(Guard, guard_id(lease_id)) is None:
            self.save(
                Guard.raise_over(
                    lease_id,
                    tenant_id=tenant_id,
                    correlation_id=correlation_id,
                    node_id=node_id,
                    workload_id=workload_id,
                    slots=slots,
                    at=at,
                )
            )

    def lower_guard(self, lease_id: str, *, at: int) -> None:
        guard = self.find(Guard, guard_id(lease_id))
        if guard is not None:
            guard.lower(at=at)
            self.save(guard)
            self._streaks.pop(guard.id, None)
            self._latest.pop(guard.id, None)

    def report(self, node_id: str, boot_id: str, samples: list[Sample], *, at: int) -> list[str]:
        """Take readings of one node in; answers what was wrong with those not used."""
        flagged = []
        for sample in samples:
            source = (node_id, boot_id, sample.slot)
            if problem := flaw(sample, self._seq_last.get(source, 0)):
                flagged.append(f"slot {sample.slot}: {problem}")
                continue
            self._seq_last[source] = sample.seq
            self._weigh(node_id, sample, at=at)
        return flagged

    def guards(self, tenant_id: str = "") -> list[tuple[Guard, Sample | None]]:
        """Guards that stand, each with the latest reading since this process began."""
        guards = [self.get(Guard, aggregate_id) for aggregate_id in self.watch.guards]
        return [(g, self._latest.get(g.id)) for g in guards if tenant_id in ("", g.tenant_id)]

    def _weigh(self, node_id: str, sample: Sample, *, at: int) -> None:
        watching = self.watch.guard_of(node_id, sample.slot)
        if watching is None:
            return
        self._latest[watching] = sample
        streaks = self._streaks.setdefault(watching, {})
        streaks[sample.slot] = streak = streaks.get(sample.slot, Streak()).after(sample)
        recovered = all(one.is_recovery for one in streaks.values())
        if streak.is_pressure or recovered:
            guard = self.get(Guard, watching)
            if streak.is_pressure:
                guard.press(sample, at=at)
            else:
                guard.recover(at=at)
            self.save(guard)
