"""Commitments as commands: opened once, settled hour by hour, each hour once.

An hour is settled when all time of its leases is billed, or after a grace; a commitment is never
settled out of order, and those of one tenant are settled together.
"""

from typing import Any

from billing import coverage, postings
from billing.coverage import Hour, Use
from billing.domain import Account, Meter, account_id
from billing.domain.commitment import Commitment
from billing.money import HOUR_US, Rate
from billing.policy import Market
from billing.pricing_views import Commitments
from billing.projections import Costs
from chassis.application import Application

GRACE_US = 2 * HOUR_US
HOURS_MAX = 50


class Committing(Application):
    currency: str
    costs: Costs
    commitments: Commitments

    def watch_commitments(self) -> None:
        self.commitments = Commitments()
        self.views |= {"commitments": self.commitments}

    def open_commitment(
        self,
        commitment_id: str,
        tenant_id: str,
        gpu_model: str,
        gpu_count: int,
        rate: Rate,
        term: tuple[int, int],
        *,
        at: int,
    ) -> Commitment:
        """The same id again is the same commitment."""
        self.get(Account, account_id(tenant_id))
        found = self.find(Commitment, commitment_id)
        if found is None:
            found = Commitment.open(
                commitment_id, tenant_id, gpu_model, gpu_count, rate, self.currency, term, at=at
            )
            self.save(found)
        return found

    def settle_commitments(self, *, at: int) -> bool:
        """Settle the next hour of every tenant for which it is due; whether more may be due."""
        due = self.commitments.due(at)[:HOURS_MAX]
        settled = [self._settle_hour(tenant_id, hour, at=at) for tenant_id, hour in due]
        return any(settled)

    def _settle_hour(self, tenant_id: str, hour: int, *, at: int) -> bool:
        meters = self._meters(tenant_id, hour)
        if at < hour + HOUR_US + GRACE_US and not all(_billed(meter, hour) for meter in meters):
            return False
        uses: dict[str, list[Use]] = {}
        for meter in meters:
            uses.setdefault(meter.gpu_model, []).append(_use(meter, hour))
        for commitment_id in self.commitments.of(tenant_id, hour):
            commitment = self.get(Commitment, commitment_id)
            number = (hour - commitment.starts_at) // HOUR_US
            served = uses.get(commitment.gpu_model, [])
            settled = coverage.cover(commitment.rate, commitment.gpu_count, number, served)
            self._post(commitment, hour, settled, at=at)
        return True

    def _meters(self, tenant_id: str, hour: int) -> list[Meter]:
        """Leases of whole GPUs on demand that had time in the hour."""
        rows = self.costs.tenants.get(tenant_id, {}).items()
        found = (
            self.get(Meter, aggregate_id)
            for aggregate_id, row in rows
            if row["activated_at"] < hour + HOUR_US
            and (not row["ended_at"] or row["ended_at"] > hour)
        )
        return [
            meter
            for meter in found
            if meter.market == Market.ON_DEMAND and meter.share_n == meter.share_d
        ]

    def _post(self, commitment: Commitment, hour: int, settled: Hour, *, at: int) -> None:
        account = self.get(Account, account_id(commitment.tenant_id))
        entries = postings.commitment_hour(
            account.tenant_id,
            commitment.gpu_model,
            used=settled.used_nanos,
            unused=settled.unused_nanos,
            given_back=settled.given_back,
            available=account.prepaid_nanos,
            owed=account.owed_nanos,
        )
        account.trigger_event(
            Account.CommitmentSettled,
            commitment_id=commitment.id,
            hour=hour,
            used_gpu_us=settled.used_gpu_us,
            unused_gpu_us=settled.unused_gpu_us,
            used_nanos=settled.used_nanos,
            unused_nanos=settled.unused_nanos,
            covered=settled.covered,
            currency=account.currency,
            postings=entries,
            timestamp=at,
        )
        self.save(account)


def _billed(meter: Meter, hour: int) -> bool:
    return meter.closed or meter.activated_at + meter.billed_us >= hour + HOUR_US


def _use(meter: Meter, hour: int) -> Use:
    from_us, until_us = (
        min(max(0, edge - meter.activated_at), meter.billed_us) for edge in (hour, hour + HOUR_US)
    )
    gpu_us = meter.gpu_count * (until_us - from_us)
    amount = meter.total_until(until_us) - meter.total_until(from_us)
    return Use(meter.lease_id, meter.activated_at, gpu_us, amount, gpu_us)


def facts(commitment: Commitment) -> dict[str, Any]:
    names = (
        "tenant_id", "gpu_model", "gpu_count", "price_nanos", "per_gpu_us", "currency",
        "starts_at", "ends_at",
    )  # fmt: skip
    return {"commitment_id": commitment.id} | {name: getattr(commitment, name) for name in names}
