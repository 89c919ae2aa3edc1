"""The times in which enforcement held a lease back, with the events that say so."""

from __future__ import annotations

from typing import Any

from chassis.aggregates import Aggregate, FirstEvent


def impairment_id(lease_id: str) -> str:
    return f"imp_{lease_id}"


class Impairment(Aggregate):
    TOPIC = "billing.impairment"

    def __init__(self, tenant_id: str, correlation_id: str, lease_id: str) -> None:
        self.tenant_id = tenant_id
        self.correlation_id = correlation_id
        self.lease_id = lease_id
        self.windows: list[dict[str, Any]] = []

    class Opened(FirstEvent):
        TOPIC = "billing.impairment.opened"
        tenant_id: str
        correlation_id: str
        lease_id: str

    @classmethod
    def open(cls, lease_id: str, tenant_id: str, correlation_id: str, *, at: int) -> Impairment:
        return cls._create(
            cls.Opened,
            id=impairment_id(lease_id),
            tenant_id=tenant_id,
            correlation_id=correlation_id or lease_id,
            lease_id=lease_id,
            timestamp=at,
        )

    @property
    def lasting(self) -> bool:
        return bool(self.windows) and not self.windows[-1]["ends_at"]

    def begin(self, step: str, starts_at: int, opened_by: str, *, at: int) -> None:
        if not self.lasting:
            self.trigger_event(
                self.Began, step=step, starts_at=starts_at, opened_by=opened_by, timestamp=at
            )

    class Began(Aggregate.Event):
        TOPIC = "billing.impairment.began"
        step: str
        starts_at: int
        opened_by: str

        def apply(self, impairment: Impairment) -> None:
            impairment.windows.append(
                {
                    "starts_at": self.starts_at,
                    "ends_at": 0,
                    "step": self.step,
                    "opened_by": self.opened_by,
                    "closed_by": "",
                }
            )

    def end(self, ends_at: int, closed_by: str, *, at: int) -> None:
        if self.lasting:
            self.trigger_event(self.Ended, ends_at=ends_at, closed_by=closed_by, timestamp=at)

    class Ended(Aggregate.Event):
        TOPIC = "billing.impairment.ended"
        ends_at: int
        closed_by: str

        def apply(self, impairment: Impairment) -> None:
            last = impairment.windows[-1]
            last["ends_at"] = self.ends_at
            last["closed_by"] = self.closed_by
