"""A billing period of a tenant: a half-open interval of instants, closed once.

Its edges never change. What becomes known of it after it closed stands as a correction in the
period that is open then.
"""

from __future__ import annotations

from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Invalid


def period_id(tenant_id: str, number: int) -> str:
    return f"per_{tenant_id.removeprefix('ten_')}_{number:06d}"


class Period(Aggregate):
    TOPIC = "billing.period"

    def __init__(
        self, tenant_id: str, number: int, zone: str, starts_at: int, ends_at: int
    ) -> None:
        self.tenant_id = tenant_id
        self.number = number
        self.zone = zone
        self.starts_at = starts_at
        self.ends_at = ends_at
        self.closed = False

    class Opened(FirstEvent):
        TOPIC = "billing.period.opened"
        tenant_id: str
        number: int
        zone: str
        starts_at: int
        ends_at: int

    @classmethod
    def open(
        cls, tenant_id: str, number: int, zone: str, starts_at: int, ends_at: int, *, at: int
    ) -> Period:
        if not 0 <= starts_at < ends_at:
            raise Invalid("a period ends after it starts", code="PERIOD")
        return cls._create(
            cls.Opened,
            id=period_id(tenant_id, number),
            tenant_id=tenant_id,
            number=number,
            zone=zone,
            starts_at=starts_at,
            ends_at=ends_at,
            timestamp=at,
        )

    def close(self, cause: str, watermark: int, *, at: int) -> None:
        """Closing twice is closing once."""
        if not self.closed:
            self.trigger_event(self.Closed, cause=cause, watermark=watermark, timestamp=at)

    class Closed(Aggregate.Event):
        TOPIC = "billing.period.closed"
        cause: str
        watermark: int

        def apply(self, period: Period) -> None:
            period.closed = True
