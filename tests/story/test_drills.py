"""The story again, while something is killed at a random moment; the books must not show it.

Each run has a seed that decides the victim's moment and the jobs. Every process has its turn;
one run in a round wipes the bus's store as well.
"""

import os
import random
from pathlib import Path

import pytest

from leasehold.launcher.embedded import Nats
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import SERVICES
from tests.story.books import OVERHEAD_US_MAX, Books
from tests.story.customer import SignUp, timed
from tests.story.test_story import shared
from tests.waiting import let_pass, wait_for

pytestmark = [pytest.mark.story, pytest.mark.drill]

VICTIMS = (*SERVICES, "node-1", "node-2", "nats", "postgres", "nats and its store")
SEEDS = int(os.environ.get("LEASEHOLD_DRILL_SEEDS", "26"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_books_do_not_show_what_was_killed(
    seed: int, platform: Platform, sign_up: SignUp, books: Books, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    victim = VICTIMS[seed % len(VICTIMS)]
    customer = sign_up(f"drill-{seed}")
    durations = [dice.uniform(0.1, 2.5) for _ in range(3)]
    witnesses = [shared(tmp_path) / f"duration-{number}" for number in range(3)]
    workload_ids = []
    for number, duration in enumerate(durations):
        script = timed(duration, witnesses[number])
        workload_ids.append(customer.submit(f"job-{number}", script, gpus=dice.randint(1, 3)))
    let_pass(dice.uniform(0, 2.5))
    restarts = platform.crew.restarts(victim.split()[0])
    strike(platform, victim)
    for workload_id in workload_ids:
        wait_for(
            lambda workload_id=workload_id: customer.has_ended(workload_id),
            seconds=60,
            what=f"the end of {workload_id} after {victim} was killed",
        )
    leases = books.check(customer.tenant_id, workload_ids)
    for workload_id, witness in zip(workload_ids, witnesses, strict=True):
        workload = customer.workload(workload_id)
        assert workload["state"] == "SUCCEEDED", workload
        assert 0 <= leases[workload["lease_id"]] - int(witness.read_text()) < OVERHEAD_US_MAX
    invoice = customer.post("/v1/invoices")
    assert len(invoice["lines"]) == len(workload_ids)
    platform.wait_ready()
    assert platform.crew.restarts(victim.split()[0]) == restarts + 1


def strike(platform: Platform, victim: str) -> None:
    if victim == "nats and its store":
        platform.hold_down("nats")
        bus = platform.crew.program("nats")
        assert isinstance(bus, Nats)
        bus.wipe()
        platform.release("nats")
    else:
        platform.kill(victim)
