"""Memory pressure on a GPU reaches the workload that causes it, and its end is heard, too.

Nothing is played here but the readings of the simulated driver: the agent samples them,
enforcement takes a step, placement carries it, the node tells the job, the job obeys.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.launcher.platform import Platform
from tests.story.books import Books
from tests.story.customer import Customer, SignUp, operator
from tests.story.test_nodes import folder_of, running_lease
from tests.waiting import wait_for

pytestmark = pytest.mark.story

GIB = 1024**3
# Prints its control file and its niceness when it is throttled, and again when it no longer is.
OBEDIENT = """
told() { cat "$LEASEHOLD_CONTROL_FILE"; echo; nice; }
until grep -q throttle "$LEASEHOLD_CONTROL_FILE"; do sleep 0.1; done; told
while grep -q throttle "$LEASEHOLD_CONTROL_FILE"; do sleep 0.1; done; told
"""


def test_a_step_of_the_ladder_reaches_the_workload_and_is_lifted_again(
    platform: Platform, sign_up: SignUp, books: Books
) -> None:
    customer, staff = sign_up("pressed"), operator(platform)
    workload_id = customer.submit("hungry", OBEDIENT, gpus=2)
    neighbour = customer.submit("modest", "sleep 600", seconds_max=900)
    lease, beside = running_lease(customer, workload_id), running_lease(customer, neighbour)
    with memory_used(platform, lease, 76 * GIB):
        wait_for(
            lambda: step_of(staff.get("/v1/guards"), lease["lease_id"]) == "throttle",
            seconds=30,
            what="the step is taken",
        )
        wait_for(
            lambda: "throttle" in output(customer, workload_id), seconds=30, what="the job hears it"
        )
        assert step_of(staff.get("/v1/guards"), beside["lease_id"]) == ""
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the job hears of relief")
    customer.post(f"/v1/workloads/{neighbour}/stop")
    wait_for(lambda: customer.has_ended(neighbour), seconds=30, what="the stop")
    staff.close()

    assert customer.workload(workload_id)["state"] == "SUCCEEDED"
    throttled, nice, relieved, _ = output(customer, workload_id).splitlines()
    assert json.loads(throttled) == {"constraint": "throttle", "stop_cause": ""}
    assert int(nice) > 0
    assert json.loads(relieved) == {"constraint": "", "stop_cause": ""}
    assert verbs(books, customer, "enforcement", f"grd_{lease['lease_id']}") == [
        "raised",
        "pressure_detected",
        "step_taken",
        "recovered",
        "lowered",
    ]
    steps = [
        (event["step"], event["cause"])
        for event in books.events("placement", customer.tenant_id)
        if event["meta"]["topic"] == "placement.lease.constrained"
    ]
    assert steps == [("throttle", "MEMORY_PRESSURE"), ("", "RECOVERED")]
    assert "constrained" not in verbs(books, customer, "placement", beside["lease_id"])
    books.check(customer.tenant_id, [workload_id, neighbour])


@contextmanager
def memory_used(platform: Platform, lease: dict[str, Any], used: int) -> Iterator[None]:
    """So many bytes in use on each GPU of the lease, as the driver tells it."""
    state = folder_of(platform, lease["node_id"]) / "gpus.txt"
    before = state.read_text()
    changed = before
    for slot in lease["slots"]:
        line = rf"^gpu\.{slot}\.memory_bytes_used=.*$"
        changed = re.sub(line, f"gpu.{slot}.memory_bytes_used={used}", changed, flags=re.M)
    assert changed != before
    replace(state, changed)
    try:
        yield
    finally:
        replace(state, before)


def replace(path: Path, text: str) -> None:
    """At once: the driver must not read half of a state."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.chmod(path.stat().st_mode)
    os.replace(draft, path)


def step_of(guards: dict[str, Any], lease_id: str) -> str | None:
    found = (guard["step"] for guard in guards["guards"] if guard["lease_id"] == lease_id)
    return next(found, None)


def output(customer: Customer, workload_id: str) -> str:
    return customer.send("GET", f"/v1/workloads/{workload_id}/logs").text


def verbs(books: Books, customer: Customer, service: str, aggregate_id: str) -> list[str]:
    return [
        event["meta"]["topic"].rpartition(".")[2]
        for event in books.events(service, customer.tenant_id)
        if event["meta"]["aggregate_id"] == aggregate_id
    ]
