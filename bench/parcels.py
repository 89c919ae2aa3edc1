"""A small application with the size and shape of the real ones: parcels that are weighed."""

from __future__ import annotations

from typing import Any

from chassis.aggregates import Aggregate, FirstEvent
from chassis.application import Application, Log, View


class Parcel(Aggregate):
    TOPIC = "bench.parcel"

    def __init__(self, tenant_id: str, label: str) -> None:
        self.tenant_id = tenant_id
        self.label = label
        self.grams = 0

    class Posted(FirstEvent):
        TOPIC = "bench.parcel.posted"
        tenant_id: str
        label: str

    @classmethod
    def post(cls, parcel_id: str, tenant_id: str, *, at: int) -> Parcel:
        return cls._create(
            cls.Posted, id=parcel_id, tenant_id=tenant_id, label="fragile", timestamp=at
        )

    def weigh(self, grams: int, *, at: int) -> None:
        self.trigger_event(self.Weighed, grams=grams, scale="north", timestamp=at)

    class Weighed(Aggregate.Event):
        TOPIC = "bench.parcel.weighed"
        grams: int
        scale: str

        def apply(self, parcel: Parcel) -> None:
            parcel.grams += self.grams


class GramsByTenant(View):
    def __init__(self) -> None:
        self.grams: dict[str, int] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Parcel.Weighed):
            self.grams[event.tenant_id] = self.grams.get(event.tenant_id, 0) + event.grams


class Parcels(Application):
    service = "bench"
    aggregates = (Parcel,)

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.views = {"grams_by_tenant": GramsByTenant()}

    def weigh(self, parcel_id: str, grams: int, *, at: int) -> bytes:
        parcel = self.find(Parcel, parcel_id) or Parcel.post(parcel_id, "ten_1", at=at)
        parcel.weigh(grams, at=at)
        self.save(parcel)
        return b"{}"
