"""Effect once: whatever is killed, and however often, the ledger equals the depot."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from chassis.store import Store
from leasehold.launcher.embedded import Nats, Postgres
from tests import servers
from tests.chassis.mesh import Mesh
from tests.chassis.shelf import Depot
from tests.delivery.ledger import Ledger
from tests.waiting import let_pass, wait_for

CHAOS_SECONDS = 10
CATCH_UP_SECONDS = 45
# Drills are counted in runs of the story, which are shorter.
SEEDS = max(1, int(os.environ.get("LEASEHOLD_DRILL_SEEDS", "1")) // 20)
ROOT = Path(__file__).parent.parent.parent

GOODS = """
select replace(aggregate_id, 'acc_', ''), sum((convert_from(data, 'utf8')::json ->> 'goods')::int)
from {table} where topic = '{topic}' group by 1 order by 1
"""


@pytest.mark.drill
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_good_is_charged_once_under_random_kills(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    with servers.postgres_server() as postgres, servers.nats_server() as bus:
        with running(postgres, bus, tmp_path) as processes:
            kills = unleash(dice, postgres, bus, processes)
            (tmp_path / "enough").touch()
            store = Store(postgres.url, "ledger")
            depot = Store(postgres.url, "depot")

            def caught_up() -> bool:
                processes.revive()
                cursor = store.cursor("depot")
                return cursor is not None and cursor.position == depot.head().position

            wait_for(caught_up, seconds=CATCH_UP_SECONDS, what=f"the ledger caught up; {kills}")
        stocked = goods(postgres, "depot.events", "depot.shelf.stocked")
        charged = goods(postgres, "ledger.events", "ledger.account.charged")
        assert stocked == charged, kills
        assert len(stocked) == 8
        assert store.parked() == []
        for kind, log in ((Depot, depot), (Ledger, store)):
            kind(log).catch_up()
            log.close()
        assert min(kills[name] for name in ("depot", "ledger", "nats", "postgres", "wipe")) > 0


class Processes:
    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def revive(self) -> None:
        """Start whichever is not running."""
        for name in ("depot", "ledger"):
            process = self._running.get(name)
            if process is None or process.poll() is not None:
                command = [sys.executable, "-m", "tests.delivery.process", name]
                self._running[name] = subprocess.Popen(command, env=self._environment, cwd=ROOT)

    def kill(self, name: str) -> None:
        self._running[name].kill()
        self._running[name].wait()

    def end(self) -> None:
        for name in self._running:
            self.kill(name)


@contextmanager
def running(postgres: Postgres, bus: Nats, folder: Path) -> Iterator[Processes]:
    mesh = Mesh(folder)
    mesh.service("depot")
    mesh.service("ledger")
    environment = {
        **os.environ,
        "DATABASE_URL": postgres.url,
        "BUS_URL": bus.url,
        "FOLDER": str(folder),
        "DEPOT_PORT": str(servers.free_port()),
    }
    processes = Processes(environment)
    try:
        processes.revive()
        wait_for(lambda: goods(postgres, "ledger.events", "ledger.account.charged"), what="a start")
        yield processes
    finally:
        processes.end()


def unleash(
    dice: random.Random, postgres: Postgres, bus: Nats, processes: Processes
) -> Counter[str]:
    kills: Counter[str] = Counter()
    # Each at least once, then as the dice fall.
    planned = ["depot", "ledger", "nats", "postgres", "wipe"]
    dice.shuffle(planned)
    end = time.monotonic() + CHAOS_SECONDS
    while time.monotonic() < end or planned:
        let_pass(dice.uniform(0.2, 1.2))
        victim = planned.pop() if planned else dice.choice(["depot", "ledger", "nats", "postgres"])
        kills[victim] += 1
        if victim == "postgres":
            postgres.kill()
            postgres.start()
        elif victim in ("nats", "wipe"):
            bus.kill()
            if victim == "wipe":
                bus.wipe()
            bus.start()
        else:
            processes.kill(victim)
        processes.revive()
    return kills


def goods(postgres: Postgres, table: str, topic: str) -> list[tuple[str, int]]:
    try:
        with psycopg.connect(postgres.url) as connection:
            return connection.execute(GOODS.format(table=table, topic=topic).encode()).fetchall()
    except psycopg.errors.UndefinedTable:
        return []
