"""What a period would have cost under another price book: a pure function of the log.

Leases, their time and what reduced it stay as they were; only prices differ. Nothing is written,
and the same log, period and book always give the same answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from billing import rating
from billing.domain import Meter
from billing.policy import Market, Price, price_of, schedule
from billing.rating import Segment
from chassis.events import Codec, Recorded

TOPICS = sorted(Codec((Meter,)).topics)


@dataclass(slots=True)
class Difference:
    tenant_id: str
    currency: str
    actual_nanos: int = 0
    other_nanos: int = 0
    leases: int = 0
    unpriced_leases: int = 0


class Metered:
    """The meters of a log, folded page by page."""

    def __init__(self) -> None:
        self.meters: dict[str, Meter] = {}
        self.position = 0
        self._codec = Codec((Meter,))

    def take(self, rows: Iterable[Recorded]) -> None:
        for row in rows:
            event = self._codec.decode(row.topic, row.data)
            meter = event.mutate(self.meters.get(row.aggregate_id))
            self.meters[row.aggregate_id] = meter
            self.position = row.position


def compare(
    meters: Iterable[Meter], prices: Sequence[Price], since: int, until: int
) -> list[Difference]:
    """By tenant and currency, what [since, until) cost and would have cost."""
    found: dict[tuple[str, str], Difference] = {}
    for meter in meters:
        from_us, until_us = (
            min(max(0, edge - meter.activated_at), meter.billed_us) for edge in (since, until)
        )
        ended = meter.closed and since <= meter.activated_at + meter.lease_us < until
        if from_us == until_us and not ended:
            continue
        key = (meter.tenant_id, meter.currency)
        row = found.setdefault(key, Difference(*key))
        actual = meter.total_until(until_us) - meter.total_until(from_us)
        actual += meter.topped_up_nanos if ended else 0
        other = _other(meter, prices, from_us, until_us, ended=ended)
        row.leases += 1
        row.actual_nanos += actual
        row.other_nanos += actual if other is None else other
        row.unpriced_leases += other is None
    return [found[key] for key in sorted(found)]


def _other(
    meter: Meter, prices: Sequence[Price], from_us: int, until_us: int, *, ended: bool
) -> int | None:
    """What part of a lease would have cost; None if the book does not price it."""
    same = [one for one in prices if (one.gpu_model, one.currency) == _sold(meter)]
    first = price_of(same, meter.sku, meter.activated_at)
    if first is None:
        return None
    segments = [Segment(0, first.version, first.tariff)]
    start = meter.activated_at
    if meter.market == Market.SPOT:
        for edge, price in schedule(same, meter.sku, start, start + meter.billed_us):
            segments.append(Segment(edge - start, price.version, price.tariff))
    until_total, from_total = (
        sum(
            rating.amounts(
                segments,
                meter.priced_windows(),
                meter.gpu_count,
                rating.charged_us(us, first.granularity_us),
            )
        )
        for us in (until_us, from_us)
    )
    minimum = max(0, first.minimum_nanos - until_total) if ended else 0
    return until_total - from_total + minimum


def _sold(meter: Meter) -> tuple[str, str]:
    return meter.gpu_model, meter.currency
