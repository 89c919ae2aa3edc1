"""Capacity bought ahead of time: so many GPUs in every hour of a term, used or not."""

from __future__ import annotations

from billing.domain.price_book import HOUR_NANOS_MAX, PastEffective
from billing.money import HOUR_US, Rate
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Invalid

GPU_COUNT_MAX = 100_000
HOURS_MAX = 5 * 366 * 24


class Commitment(Aggregate):
    TOPIC = "billing.commitment"

    def __init__(
        self,
        tenant_id: str,
        gpu_model: str,
        gpu_count: int,
        price_nanos: int,
        per_gpu_us: int,
        currency: str,
        starts_at: int,
        ends_at: int,
    ) -> None:
        self.tenant_id = tenant_id
        self.gpu_model = gpu_model
        self.gpu_count = gpu_count
        self.price_nanos = price_nanos
        self.per_gpu_us = per_gpu_us
        self.currency = currency
        self.starts_at = starts_at
        self.ends_at = ends_at

    class Opened(FirstEvent):
        TOPIC = "billing.commitment.opened"
        tenant_id: str
        gpu_model: str
        gpu_count: int
        price_nanos: int
        per_gpu_us: int
        currency: str
        starts_at: int
        ends_at: int

    @classmethod
    def open(
        cls,
        commitment_id: str,
        tenant_id: str,
        gpu_model: str,
        gpu_count: int,
        rate: Rate,
        currency: str,
        term: tuple[int, int],
        *,
        at: int,
    ) -> Commitment:
        starts_at, ends_at = term
        if starts_at < at:
            raise PastEffective(f"the commitment would begin {at - starts_at} us ago")
        if starts_at % HOUR_US or ends_at % HOUR_US or not starts_at < ends_at:
            raise Invalid("a commitment is for whole UTC hours", code="TERM")
        if (ends_at - starts_at) // HOUR_US > HOURS_MAX:
            raise Invalid("a commitment is for at most 5 years", code="TERM")
        if not 1 <= gpu_count <= GPU_COUNT_MAX:
            raise Invalid(f"gpu_count is from 1 to {GPU_COUNT_MAX}", code="GPU_COUNT")
        if min(rate.price_nanos, rate.per_gpu_us) < 1 or rate.amount(HOUR_US) > HOUR_NANOS_MAX:
            raise Invalid("a price is above 0 and at most 100000 per GPU-hour", code="PRICE")
        return cls._create(
            cls.Opened,
            id=commitment_id,
            tenant_id=tenant_id,
            gpu_model=gpu_model,
            gpu_count=gpu_count,
            price_nanos=rate.price_nanos,
            per_gpu_us=rate.per_gpu_us,
            currency=currency,
            starts_at=starts_at,
            ends_at=ends_at,
            timestamp=at,
        )

    @property
    def rate(self) -> Rate:
        return Rate(self.price_nanos, self.per_gpu_us)
