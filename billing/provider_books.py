"""What the provider's side answers: matches of a day, margins. Changes nothing.

Answers are computed from machines, leases and bills as they are known now; a match of a day that
is over changes only when a late fact or another bill comes.
"""

from collections.abc import Iterator
from typing import Any

from billing.domain.provider_meter import provider_meter_id
from billing.lease_hours import LeaseHours
from billing.margin import By, Earning, Margin, Margins
from billing.money import HOUR_US
from billing.provider_cost import DAY_US, Machine, Use
from billing.provider_match import LeaseDay, MachineDay, lease_days
from billing.provider_views import Bills, Machines
from chassis.application import Application
from chassis.errors import Invalid


class ProviderBooks(Application):
    machines: Machines
    lease_hours: LeaseHours
    bills: Bills

    def add_provider_views(self) -> None:
        self.machines, self.lease_hours, self.bills = Machines(), LeaseHours(), Bills()
        self.views["machines"] = self.machines
        self.views["lease_hours"] = self.lease_hours
        self.views["provider_bills"] = self.bills

    def uses(self, instance_id: str) -> list[Use]:
        return self.lease_hours.uses(self.machines.nodes(instance_id)) if instance_id else []

    def match_machines(self, day: int, source_id: str = "", *, at: int) -> list[MachineDay]:
        """Every machine that was there that day or is billed for it."""
        billed = dict(self.bills.days.get(str(day), {}))
        rows = []
        for _, machine in self.machines.of(source_id):
            name = f"{machine.source_id}/{machine.provider_id}"
            row = self._machine_day(machine, day, billed.get(name), at)
            if row.present_us:
                billed.pop(name, None)
                rows.append(row)
        for name, (currency, nanos, us) in sorted(billed.items()):
            owner, _, provider_id = name.partition("/")
            if source_id in ("", owner):
                rows.append(self._unseen(owner, provider_id, day, currency, nanos, us))
        return rows

    def _machine_day(
        self, machine: Machine, day: int, billed: list[Any] | None, at: int
    ) -> MachineDay:
        begin, end = (min(moment, at) for moment in (day * DAY_US, (day + 1) * DAY_US))
        days = list(self.match_leases_on(machine, day, at=at))
        currency, nanos, us = billed or (machine.currency, 0, 0)
        name = f"{machine.source_id}/{machine.provider_id}"
        return MachineDay(
            source_id=machine.source_id,
            provider_id=machine.provider_id,
            instance_id=machine.instance_id,
            kind=machine.kind,
            currency=currency,
            present_us=machine.present_us(end) - machine.present_us(begin),
            billed_us=us,
            leased_gpu_us=sum(one.leased_gpu_us for one in days),
            metered_gpu_us=sum(one.metered_gpu_us for one in days),
            expected_nanos=machine.cost(end) - machine.cost(begin),
            billed_nanos=nanos,
            accepted_nanos=self.bills.accepted.get(str(day), {}).get(name, 0),
            is_billed=billed is not None,
        )

    def _unseen(
        self, source_id: str, provider_id: str, day: int, currency: str, nanos: int, us: int
    ) -> MachineDay:
        """Billed for a day on which we did not see it: at all, or not that day."""
        known = [one for _, one in self.machines.of(source_id) if one.provider_id == provider_id]
        accepted = self.bills.accepted.get(str(day), {}).get(f"{source_id}/{provider_id}", 0)
        return MachineDay(
            source_id=source_id,
            provider_id=provider_id,
            instance_id=known[-1].instance_id if known else "",
            kind=known[-1].kind if known else "",
            currency=currency,
            billed_us=us,
            billed_nanos=nanos,
            accepted_nanos=accepted,
            is_billed=True,
        )

    def match_leases_on(self, machine: Machine, day: int, *, at: int) -> Iterator[LeaseDay]:
        metered: dict[str, int] = {}
        for hour in range(day * 24, day * 24 + 24):
            for lease_id, gpu_us in self.lease_hours.metered.get(str(hour), {}).items():
                metered[lease_id] = metered.get(lease_id, 0) + gpu_us
        return lease_days(machine, self.uses(machine.instance_id), metered, day, at)

    def match_leases(self, day: int, source_id: str = "", *, at: int) -> list[LeaseDay]:
        machines = [machine for _, machine in self.machines.of(source_id)]
        return [one for machine in machines for one in self.match_leases_on(machine, day, at=at)]

    def margin(self, by: By, from_at: int, until_at: int, *, at: int) -> list[Margin]:
        """Margin over whole UTC hours; what is not over yet counts up to now."""
        if from_at % HOUR_US or until_at % HOUR_US or from_at > until_at:
            raise Invalid("a margin is asked for whole hours", code="HOURS")
        margins = Margins(by)
        margins.earn(self._earnings(from_at // HOUR_US, until_at // HOUR_US))
        for _, machine in self.machines.of(""):
            uses = self.uses(machine.instance_id)
            margins.spend(machine, uses, min(from_at, at), min(until_at, at))
        return margins.rows()

    def _earnings(self, first: int, last: int) -> Iterator[Earning]:
        sources = self._sources_by_lease()
        for hour, rows in self.lease_hours.earned.items():
            if first <= int(hour) < last:
                for key, nanos in rows.items():
                    currency, tenant_id, lease_id, sku = key.split("/")
                    yield Earning(tenant_id, sku, sources.get(lease_id, ""), currency, nanos)

    def _sources_by_lease(self) -> dict[str, str]:
        found = {}
        for lease in self.lease_hours.leases.values():
            instance_id = self.machines.links.get(lease["node_id"], "")
            if row := self.machines.rows.get(provider_meter_id(instance_id)):
                found[lease["lease_id"]] = row["source_id"]
        return found
