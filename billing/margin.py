"""What is earned on what is rented: a fold of income and cost by tenant, SKU or provider. Pure.

Costs of ranges that follow each other sum up to the cost of the whole: each is a difference of
two totals. Idle and leaked machines belong to no tenant; they stand in a row of the platform's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from billing.provider_cost import Machine, Use, shares, split

PLATFORM = "(platform)"
OWN = "(own)"


class By(StrEnum):
    TENANT = "tenant"
    SKU = "sku"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class Earning:
    """Income of an hour; ``source_id`` "" is hardware of our own."""

    tenant_id: str
    sku: str
    source_id: str
    currency: str
    nanos: int


@dataclass(slots=True)
class Margin:
    key: str
    currency: str
    revenue_nanos: int = 0
    provider_cost_nanos: int = 0
    warm_pool_nanos: int = 0
    leak_nanos: int = 0

    @property
    def margin_nanos(self) -> int:
        costs = self.provider_cost_nanos + self.warm_pool_nanos + self.leak_nanos
        return self.revenue_nanos - costs


class Margins:
    def __init__(self, by: By) -> None:
        self._by = by
        self._rows: dict[tuple[str, str], Margin] = {}

    def earn(self, earnings: Iterable[Earning]) -> None:
        for one in earnings:
            key = self._key(one.tenant_id or PLATFORM, one.sku, one.source_id or OWN)
            self._row(key, one.currency).revenue_nanos += one.nanos

    def spend(self, machine: Machine, uses: Sequence[Use], from_at: int, until_at: int) -> None:
        """The cost of a machine in [from_at, until_at)."""
        begin, end = split(machine, uses, from_at), split(machine, uses, until_at)
        if begin == end:
            return
        before = {use.lease_id: cost for use, cost in shares(machine, uses, from_at)}
        for use, cost in shares(machine, uses, until_at):
            key = self._key(use.tenant_id, machine.sku, machine.source_id)
            change = cost - before[use.lease_id]
            if change:
                self._row(key, machine.currency).provider_cost_nanos += change
        key = self._key(PLATFORM, machine.sku, machine.source_id)
        row = self._row(key, machine.currency)
        row.warm_pool_nanos += end.idle - begin.idle
        row.leak_nanos += end.leak - begin.leak

    def rows(self) -> list[Margin]:
        return [self._rows[key] for key in sorted(self._rows)]

    def _key(self, tenant_id: str, sku: str, source_id: str) -> str:
        return {By.TENANT: tenant_id, By.SKU: sku, By.PROVIDER: source_id}[self._by]

    def _row(self, key: str, currency: str) -> Margin:
        return self._rows.setdefault((key, currency), Margin(key, currency))
