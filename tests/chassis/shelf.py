"""A small service for tests of the chassis: shelves that hold counted goods."""

from __future__ import annotations

from typing import Any

from chassis.aggregates import Aggregate, FirstEvent
from chassis.application import Application, Log, View
from chassis.errors import Refused


class Shelf(Aggregate):
    TOPIC = "depot.shelf"

    def __init__(self, tenant_id: str, correlation_id: str, goods_max: int) -> None:
        self.tenant_id = tenant_id
        self.correlation_id = correlation_id
        self.goods_max = goods_max
        self.goods = 0

    class Mounted(FirstEvent):
        TOPIC = "depot.shelf.mounted"
        tenant_id: str
        correlation_id: str
        goods_max: int

    @classmethod
    def mount(cls, shelf_id: str, tenant_id: str, goods_max: int, *, at: int) -> Shelf:
        return cls._create(
            cls.Mounted,
            id=shelf_id,
            tenant_id=tenant_id,
            correlation_id="",
            goods_max=goods_max,
            timestamp=at,
        )

    def stock(self, goods: int, *, at: int) -> None:
        if self.goods + goods > self.goods_max:
            raise Refused(f"{goods} more than {self.goods} exceed {self.goods_max}", code="FULL")
        self.trigger_event(self.Stocked, goods=goods, timestamp=at)

    class Stocked(Aggregate.Event):
        TOPIC = "depot.shelf.stocked"
        goods: int

        def apply(self, shelf: Shelf) -> None:
            shelf.goods += self.goods


class GoodsByTenant(View):
    def __init__(self) -> None:
        self.goods: dict[str, int] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Shelf.Stocked):
            self.goods[event.tenant_id] = self.goods.get(event.tenant_id, 0) + event.goods


class Depot(Application):
    service = "depot"
    aggregates = (Shelf,)

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.by_tenant = GoodsByTenant()
        self.views = {"goods_by_tenant": self.by_tenant}

    def mount(self, shelf_id: str, tenant_id: str, goods_max: int, *, at: int) -> None:
        self.save(Shelf.mount(shelf_id, tenant_id, goods_max, at=at))

    def stock(self, shelf_id: str, goods: int, *, at: int) -> int:
        shelf = self.get(Shelf, shelf_id)
        shelf.stock(goods, at=at)
        self.save(shelf)
        return shelf.goods

    def move(self, from_id: str, to_id: str, goods: int, *, at: int) -> None:
        """Changes one shelf before it finds out whether the other can take it."""
        source = self.get(Shelf, from_id)
        source.stock(-goods, at=at)
        self.save(source)
        self.stock(to_id, goods, at=at)
