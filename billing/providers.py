"""The provider's side as commands: machines open, accrue and close; bills come in; matches.

Every command can be repeated and comes in any order. Who leased a machine is looked up when its
cost is accrued, never when it is heard of, so late news only moves cost between accounts.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from billing.domain.provider_bill import ProviderBill, ProviderMatch, bill_key
from billing.domain.provider_meter import (
    ProviderMeter,
    ProviderNode,
    expense,
    leak,
    orphan_meter_id,
    provider_meter_id,
)
from billing.provider_books import ProviderBooks
from billing.provider_cost import DAY_US, Kind, Machine
from billing.provider_match import MachineDay, Outcome
from chassis import canonical
from chassis.clock import SECOND
from chassis.errors import NotFound, Refused

ACCRUE_US = 300 * SECOND
ACCRUALS_MAX = 200
PROVIDER_AGGREGATES = (ProviderMeter, ProviderNode, ProviderBill, ProviderMatch)


class Providers(ProviderBooks):
    # Machines.

    def rent_machine(self, machine: Machine, *, at: int) -> None:
        meter_id = provider_meter_id(machine.instance_id)
        if self.find(ProviderMeter, meter_id) is None:
            self.save(ProviderMeter.open(meter_id, machine, at=at))

    def note_termination(self, instance_id: str, cause: str, *, at: int) -> None:
        if meter := self.find(ProviderMeter, provider_meter_id(instance_id)):
            meter.note_termination(cause, at=at)
            self.save(meter)

    def return_machine(self, instance_id: str, cause: str, ended_at: int, *, at: int) -> None:
        if meter := self.find(ProviderMeter, provider_meter_id(instance_id)):
            meter.close(cause, self.uses(meter.instance_id), ended_at, at=at)
            self.save(meter)

    def find_orphan(self, machine: Machine, *, at: int) -> None:
        """A machine that nobody rents leaks from when it was first seen."""
        if f"{machine.source_id}/{machine.provider_id}" in self.machines.orphans:
            return
        meter_id = orphan_meter_id(machine.source_id, machine.provider_id, machine.started_at)
        if self.find(ProviderMeter, meter_id) is None:
            self.save(ProviderMeter.open(meter_id, machine, at=at))

    def lose_machine(self, source_id: str, provider_id: str, ended_at: int, *, at: int) -> None:
        """An audit missed it in the inventory although nobody gave it back."""
        for meter_id, machine in self.machines.of(source_id):
            if machine.provider_id == provider_id and machine.kind == Kind.INSTANCE:
                meter = self.get(ProviderMeter, meter_id)
                meter.close("MISSING_VM", self.uses(meter.instance_id), ended_at, at=at)
                self.save(meter)

    def clear_orphan(self, source_id: str, provider_id: str, ended_at: int, *, at: int) -> None:
        if meter_id := self.machines.orphans.get(f"{source_id}/{provider_id}"):
            meter = self.get(ProviderMeter, meter_id)
            meter.close("CLEARED", [], ended_at, at=at)
            self.save(meter)

    def link_node(self, node_id: str, instance_id: str, *, at: int) -> None:
        if self.find(ProviderNode, f"prn_{node_id}") is None:
            self.save(ProviderNode.link(node_id, instance_id, at=at))

    def accrue(self, *, at: int) -> bool:
        """Bring due machines up to now, a bounded number; whether more may be due."""
        due = self.machines.due(at - ACCRUE_US, ACCRUALS_MAX)
        for meter_id in due:
            meter = self.get(ProviderMeter, meter_id)
            doubted = meter_id in self.machines.stale
            meter.accrue(self.uses(meter.instance_id), doubted=doubted, at=at)
            self.save(meter)
        return len(due) == ACCRUALS_MAX

    # Bills.

    def import_bill(
        self,
        bill_id: str,
        source_id: str,
        currency: str,
        lines: Sequence[dict[str, Any]],
        *,
        at: int,
    ) -> tuple[ProviderBill, bool]:
        """Keep a bill, and whether it was known; another bill under the same id is refused."""
        kept = [dict(line) for line in lines]
        digest = sha256(canonical.dumps({"lines": kept})).hexdigest()
        bill = self.find(ProviderBill, bill_key(source_id, bill_id))
        if bill is not None:
            bill.refuse_another(digest, currency)
            return bill, True
        bill = ProviderBill._create(
            ProviderBill.Imported,
            id=bill_key(source_id, bill_id),
            bill_id=bill_id,
            source_id=source_id,
            currency=currency,
            lines_sha256=digest,
            lines=kept,
            total_nanos=sum(line["amount_nanos"] for line in kept),
            timestamp=at,
        )
        self.save(bill)
        return bill, False

    def accept_match(
        self, day: int, source_id: str, provider_id: str, *, at: int
    ) -> tuple[MachineDay, int]:
        """Post the difference between a bill and what we expected, for one machine and day."""
        found = [one for one in self.match_machines(day, source_id, at=at)
                 if one.provider_id == provider_id]  # fmt: skip
        if not found:
            raise NotFound(f"no machine {provider_id!r} that day", code="MATCH_NOT_FOUND")
        (row,) = found
        if row.outcome is Outcome.PROVIDER_UNBILLED or not row.is_billed:
            raise Refused("nothing is billed for it that day", code="NOT_BILLED")
        if (day + 1) * DAY_US > at:
            raise Refused("the day is not over", code="DAY_OPEN")
        match_id = f"prm_{source_id}_{provider_id}_{day}"
        match = self.find(ProviderMatch, match_id) or ProviderMatch._create(
            ProviderMatch.Opened,
            id=match_id,
            source_id=source_id,
            provider_id=provider_id,
            day=day,
            timestamp=at,
        )
        posted = match.accept(
            str(row.outcome),
            self._expense_of(row),
            expected=row.expected_nanos,
            billed=row.billed_nanos,
            currency=row.currency,
            at=at,
        )
        self.save(match)
        return row, posted

    def _expense_of(self, row: MachineDay) -> str:
        if row.kind != Kind.INSTANCE:
            return leak(row.source_id)
        machine = self.machines.machine(provider_meter_id(row.instance_id))
        return expense(machine.source_id, machine.sku)
