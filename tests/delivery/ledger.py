"""A service that follows the depot of ``tests.chassis.shelf``: one account for each shelf."""

from __future__ import annotations

from chassis.aggregates import Aggregate, FirstEvent
from chassis.application import Application
from chassis.errors import Refused
from chassis.incoming import Incoming, Reaction

UNLUCKY = 13


class Account(Aggregate):
    TOPIC = "ledger.account"

    def __init__(self) -> None:
        self.goods = 0

    class Opened(FirstEvent):
        TOPIC = "ledger.account.opened"

    class Charged(Aggregate.Event):
        TOPIC = "ledger.account.charged"
        goods: int

        def apply(self, account: Account) -> None:
            account.goods += self.goods

    @classmethod
    def open(cls, account_id: str, *, at: int) -> Account:
        return cls._create(cls.Opened, id=account_id, timestamp=at)

    def charge(self, goods: int, *, at: int) -> None:
        self.trigger_event(self.Charged, goods=goods, timestamp=at)


class Ledger(Application):
    service = "ledger"
    aggregates = (Account,)
    # While set, charges of one size cannot be applied, as if the code had a fault.
    superstitious = False

    def open(self, event: Incoming, at: int) -> None:
        self.save(Account.open(account_of(event.aggregate_id), at=at))

    def charge(self, event: Incoming, at: int) -> None:
        if self.superstitious and event.data["goods"] == UNLUCKY:
            raise Refused(f"{UNLUCKY} goods are too many")
        account = self.get(Account, account_of(event.aggregate_id))
        account.charge(event.data["goods"], at=at)
        self.save(account)


def reactions(ledger: Ledger) -> dict[str, Reaction]:
    # Opening an account has a reaction; the depot's other events have none.
    return {"depot.shelf.mounted": ledger.open, "depot.shelf.stocked": ledger.charge}


def account_of(shelf_id: str) -> str:
    return f"acc_{shelf_id}"
