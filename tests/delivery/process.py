"""One service of the chaos test as a process: ``python -m tests.delivery.process depot``.

The depot stocks its shelves without pause until the folder holds a file named ``enough``; the
ledger follows. Either may be killed at any moment.
"""

import asyncio
import os
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import psycopg

from chassis.application import Application
from chassis.bus import Bus
from chassis.channels import Channels
from chassis.consumer import Consumer
from chassis.edge import Edge
from chassis.errors import ServiceError
from chassis.identity import Identity
from tests.chassis.shelf import Depot, Shelf
from tests.delivery.ledger import Ledger, reactions
from tests.delivery.rig import Core, log_served, relaying
from tests.waiting import let_pass

A = TypeVar("A", bound=Application)

SHELVES = [f"shf_{number}" for number in range(8)]
GROUP = 10

DATABASE_URL = os.environ["DATABASE_URL"]
BUS_URL = os.environ["BUS_URL"]
FOLDER = Path(os.environ["FOLDER"])
PORT = int(os.environ["DEPOT_PORT"])


async def run_depot() -> None:
    depot, identity = started(Depot), Identity(FOLDER / "depot")
    async with (
        log_served(depot, identity, PORT),
        relaying(depot, BUS_URL, identity) as relay,
    ):
        while not (FOLDER / "enough").exists():
            await asyncio.to_thread(stock_all, depot)
            relay.nudge()
        await asyncio.Event().wait()


async def run_ledger() -> None:
    ledger, identity = started(Ledger), Identity(FOLDER / "ledger")
    channels = Channels(identity, {"depot": f"127.0.0.1:{PORT}"})
    edge = Edge("ledger", ledger.writer, channels)
    bus = Bus(BUS_URL, "ledger")
    table = reactions(ledger.app)
    await Consumer("ledger", "depot", bus, ledger.store, edge, table, identity).run()


def started(kind: type[A]) -> Core[A]:
    while True:
        try:
            return Core(kind, DATABASE_URL, lost=lambda: os._exit(1))
        except psycopg.OperationalError:
            let_pass(0.1)


def stock_all(depot: Core[Depot]) -> None:
    def stock(shelf: str, goods: int, at: int) -> None:
        if depot.app.find(Shelf, shelf) is None:
            depot.app.mount(shelf, "ten_1", 10**12, at=at)
        depot.app.stock(shelf, goods, at=at)

    futures: list[Future[None]] = [
        depot.writer.command(lambda at, shelf=shelf, goods=goods: stock(shelf, goods, at))
        for shelf in SHELVES
        for goods in range(1, GROUP)
    ]
    for future in futures:
        try:
            future.result()
        except ServiceError:
            # Not answered for sure; what became of it is in the log.
            continue


if __name__ == "__main__":
    asyncio.run({"depot": run_depot, "ledger": run_ledger}[sys.argv[1]]())
