"""The meter of one lease: how much of it is billed, and how much of that its node confirmed.

Billed time is one interval [0, billed_us) that grows slice by slice and goes back only by a
correction. At every moment its money is exactly the price of it, rounded once; so a closed meter's
money is the price of its lease, whatever happened on the way.
"""

from __future__ import annotations

from typing import Any

from billing import postings, rating
from billing.domain.terms import Activation, Terms, segment_row, window_row
from billing.policy import Known, Market, Piece, Price, Slice, Verdict
from billing.postings import Posting
from billing.rating import GRADUATED, Window
from chassis.aggregates import Aggregate, FirstEvent

__all__ = ["Activation", "Meter", "meter_id"]

_OPEN = -1


def meter_id(lease_id: str) -> str:
    return f"mtr_{lease_id}"


class Meter(Terms, Aggregate):
    TOPIC = "billing.meter"

    def __init__(
        self,
        tenant_id: str,
        correlation_id: str,
        lease_id: str,
        workload_id: str,
        project: str,
        node_id: str,
        gpu_model: str,
        gpu_count: int,
        fencing_token: int,
        activated_at: int,
        price_nanos: int,
        per_gpu_us: int,
        currency: str,
        price_version: int = 0,
        slots: list[int] | None = None,
        form: str = "",
        share_n: int = 1,
        share_d: int = 1,
        region: str = "",
        market: str = Market.ON_DEMAND.value,
        sla_tier: str = "",
        mode: str = GRADUATED,
        tiers: list[dict[str, int]] | None = None,
        minimum_nanos: int = 0,
        granularity_us: int = 1,
    ) -> None:
        self.tenant_id = tenant_id
        self.correlation_id = correlation_id
        self.lease_id = lease_id
        self.workload_id = workload_id
        self.project = project
        self.node_id = node_id
        self.gpu_model = gpu_model
        self.gpu_count = gpu_count
        self.fencing_token = fencing_token
        self.activated_at = activated_at
        self.price_nanos = price_nanos
        self.per_gpu_us = per_gpu_us
        self.currency = currency
        self.slots = slots or []
        self.form = form
        self.share_n = share_n
        self.share_d = share_d
        self.region = region
        self.market = market
        self.sla_tier = sla_tier
        self.minimum_nanos = minimum_nanos
        self.granularity_us = granularity_us
        # The prices the lease passes through, by when each begins, and the time that costs less.
        first = {"from_gpu_us": 0, "price_nanos": price_nanos, "per_gpu_us": per_gpu_us}
        self.segments: list[dict[str, Any]] = [
            segment_row(0, price_version, mode, [first, *(tiers or [])])
        ]
        self.windows: list[dict[str, Any]] = []
        self.billed_us = 0
        # Money of time, and what was charged beyond it to reach the minimum.
        self.amount_nanos = 0
        self.topped_up_nanos = 0
        # What the node has said: its last sequence number, and the end of its last interval.
        self.seq = 0
        self.reported_us = 0
        self.fenced_seq = 0
        self.lease_us = _OPEN
        self.invoice_id = ""

    class Opened(FirstEvent):
        TOPIC = "billing.meter.opened"
        tenant_id: str
        correlation_id: str
        lease_id: str
        workload_id: str
        project: str
        node_id: str
        gpu_model: str
        gpu_count: int
        fencing_token: int
        activated_at: int
        price_nanos: int
        per_gpu_us: int
        currency: str
        price_version: int
        slots: list[int]
        form: str
        share_n: int
        share_d: int
        region: str
        market: str
        sla_tier: str
        mode: str
        tiers: list[dict[str, int]]
        minimum_nanos: int
        granularity_us: int

    @classmethod
    def open(cls, activation: Activation, price: Price, *, at: int) -> Meter:
        return cls._create(
            cls.Opened,
            id=meter_id(activation.lease_id),
            tenant_id=activation.tenant_id,
            correlation_id=activation.correlation_id or activation.lease_id,
            lease_id=activation.lease_id,
            workload_id=activation.workload_id,
            project=activation.project,
            node_id=activation.node_id,
            gpu_model=activation.gpu_model,
            gpu_count=activation.gpu_count,
            fencing_token=activation.fencing_token,
            activated_at=activation.activated_at,
            price_nanos=price.rate.price_nanos,
            per_gpu_us=price.rate.per_gpu_us,
            currency=price.currency,
            price_version=price.version,
            slots=list(activation.slots),
            form=activation.form,
            share_n=activation.share.numerator,
            share_d=activation.share.denominator,
            region=activation.region,
            market=str(activation.market),
            sla_tier=activation.sla_tier,
            mode=price.mode,
            tiers=rating.tier_rows(price.tariff)[1:],
            minimum_nanos=price.minimum_nanos,
            granularity_us=price.granularity_us,
            timestamp=at,
        )

    @property
    def closed(self) -> bool:
        return self.lease_us != _OPEN

    def lasted_us(self, at: int) -> int:
        return self.lease_us if self.closed else max(0, at - self.activated_at)

    def known(self, at: int) -> Known:
        return Known(
            node_id=self.node_id,
            fencing_token=self.fencing_token,
            seq=self.seq,
            reported_us=self.reported_us,
            lasted_us=self.lasted_us(at),
            ended=self.closed,
        )

    def bill(
        self, until_us: int, *, confirmed: bool = False, seq: int = 0, boot_id: str = "", at: int
    ) -> None:
        """Move the end of billed time; its hold must have been funded for it."""
        amount = self.cost_until(until_us)
        self.trigger_event(
            self.SliceRecorded,
            from_us=self.billed_us,
            until_us=until_us,
            confirmed=confirmed,
            seq=seq,
            boot_id=boot_id,
            amount_nanos=amount,
            currency=self.currency,
            postings=postings.charge(self.tenant_id, self.lease_id, self.gpu_model, amount),
            timestamp=at,
        )

    class SliceRecorded(Aggregate.Event):
        TOPIC = "billing.meter.slice_recorded"
        from_us: int
        until_us: int
        confirmed: bool
        seq: int
        boot_id: str
        amount_nanos: int
        currency: str
        postings: list[Posting]

        def apply(self, meter: Meter) -> None:
            meter.billed_us = self.until_us
            meter.amount_nanos += self.amount_nanos
            if self.confirmed:
                meter.seq = self.seq
                meter.reported_us = self.until_us

    def reprice(self, from_us: int, price: Price, *, at: int) -> None:
        """From ``from_us`` on the lease has another price; what is billed beyond is put right."""
        row = segment_row(from_us, price.version, price.mode, rating.tier_rows(price.tariff))
        kept = [one for one in self.segments if one["from_us"] < from_us]
        amount = self._with(segments=[*kept, row])
        self.trigger_event(
            self.Repriced,
            from_us=from_us,
            price_version=price.version,
            mode=price.mode,
            tiers=row["tiers"],
            amount_nanos=amount,
            currency=self.currency,
            postings=postings.charge(self.tenant_id, self.lease_id, self.gpu_model, amount),
            timestamp=at,
        )

    class Repriced(Aggregate.Event):
        TOPIC = "billing.meter.repriced"
        from_us: int
        price_version: int
        mode: str
        tiers: list[dict[str, int]]
        amount_nanos: int
        currency: str
        postings: list[Posting]

        def apply(self, meter: Meter) -> None:
            row = segment_row(self.from_us, self.price_version, self.mode, self.tiers)
            kept = [one for one in meter.segments if one["from_us"] < self.from_us]
            meter.segments = [*kept, row]
            meter.amount_nanos += self.amount_nanos

    def reduce(self, window: Window, cause: str, *, at: int) -> None:
        """Time costs only a part of its price; a window again begins where the last one did."""
        row = window_row(window)
        kept = [one for one in self.windows if one["from_us"] != window.from_us]
        amount = self._with(windows=[*kept, row])
        self.trigger_event(
            self.Reduced,
            **row,
            cause=cause,
            amount_nanos=amount,
            currency=self.currency,
            postings=postings.charge(self.tenant_id, self.lease_id, self.gpu_model, amount),
            timestamp=at,
        )

    class Reduced(Aggregate.Event):
        TOPIC = "billing.meter.reduced"
        from_us: int
        until_us: int
        factor_n: int
        factor_d: int
        cause: str
        amount_nanos: int
        currency: str
        postings: list[Posting]

        def apply(self, meter: Meter) -> None:
            names = ("from_us", "until_us", "factor_n", "factor_d")
            row = {name: getattr(self, name) for name in names}
            kept = [one for one in meter.windows if one["from_us"] != self.from_us]
            meter.windows = [*kept, row]
            meter.amount_nanos += self.amount_nanos

    def charge_minimum(self, *, at: int) -> None:
        """An ended lease that cost less than its minimum is charged the rest, on its own."""
        if (missing := self.minimum_nanos - self.amount_nanos) > 0:
            self.trigger_event(
                self.MinimumCharged,
                amount_nanos=missing,
                currency=self.currency,
                postings=postings.charge(self.tenant_id, self.lease_id, self.gpu_model, missing),
                timestamp=at,
            )

    class MinimumCharged(Aggregate.Event):
        TOPIC = "billing.meter.minimum_charged"
        amount_nanos: int
        currency: str
        postings: list[Posting]

        def apply(self, meter: Meter) -> None:
            meter.topped_up_nanos += self.amount_nanos

    def confirm(self, piece: Piece, seq: int, *, at: int) -> None:
        self.trigger_event(
            self.Confirmed, from_us=piece.from_us, until_us=piece.until_us, seq=seq, timestamp=at
        )

    class Confirmed(Aggregate.Event):
        TOPIC = "billing.meter.confirmed"
        from_us: int
        until_us: int
        seq: int

        def apply(self, meter: Meter) -> None:
            meter.seq = self.seq
            meter.reported_us = self.until_us

    def dispute(self, slice_: Slice, cause: Verdict, *, at: int) -> None:
        """Write down a report that cannot be true, once."""
        if cause is Verdict.FENCED and slice_.seq <= self.fenced_seq:
            return
        self.trigger_event(
            self.Disputed,
            from_us=slice_.from_us,
            until_us=slice_.until_us,
            seq=slice_.seq,
            cause=cause.value,
            timestamp=at,
        )

    class Disputed(Aggregate.Event):
        TOPIC = "billing.meter.disputed"
        from_us: int
        until_us: int
        seq: int
        cause: str

        def apply(self, meter: Meter) -> None:
            # Another token's sequence is not this lease's.
            if self.cause == Verdict.FENCED:
                meter.fenced_seq = self.seq
            else:
                meter.seq = self.seq

    def close(self, *, at: int) -> None:
        """The lease has ended where billed time ends."""
        self.trigger_event(
            self.Closed,
            lease_us=self.billed_us,
            gpu_us=self.gpu_count * self.billed_us,
            amount_nanos=self.amount_nanos,
            currency=self.currency,
            timestamp=at,
        )

    class Closed(Aggregate.Event):
        TOPIC = "billing.meter.closed"
        lease_us: int
        gpu_us: int
        amount_nanos: int
        currency: str

        def apply(self, meter: Meter) -> None:
            meter.lease_us = self.lease_us

    def invoice(self, invoice_id: str, line: int, amount_nanos: int, *, at: int) -> None:
        """The lease's money stands on an invoice, as ``amount_nanos`` after rounding."""
        self.trigger_event(
            self.Invoiced,
            invoice_id=invoice_id,
            line=line,
            amount_nanos=amount_nanos,
            residual_nanos=self.amount_nanos - amount_nanos,
            timestamp=at,
        )

    class Invoiced(Aggregate.Event):
        TOPIC = "billing.meter.invoiced"
        invoice_id: str
        line: int
        amount_nanos: int
        residual_nanos: int

        def apply(self, meter: Meter) -> None:
            meter.invoice_id = self.invoice_id
