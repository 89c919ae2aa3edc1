"""The control plane is off the data path: kill all of it for a minute while a job runs."""

from pathlib import Path

import pytest

from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import SERVICES
from tests.story.books import OVERHEAD_US_MAX, Books
from tests.story.customer import SignUp, timed
from tests.story.test_story import shared
from tests.waiting import let_pass, wait_for

pytestmark = [pytest.mark.story, pytest.mark.drill]

OUTAGE_SECONDS = 60
JOB_SECONDS = 30


@pytest.mark.timeout(240)
def test_a_job_outlives_a_minute_without_the_control_plane(
    platform: Platform, sign_up: SignUp, books: Books, tmp_path: Path
) -> None:
    customer = sign_up("outage")
    witness = shared(tmp_path) / "duration"
    workload_id = customer.submit("steady", timed(JOB_SECONDS, witness), gpus=4)
    wait_for(
        lambda: customer.workload(workload_id)["state"] == "RUNNING", seconds=30, what="the start"
    )
    control_plane = [*SERVICES, "nats", "postgres"]
    for name in control_plane:
        platform.hold_down(name)
    let_pass(OUTAGE_SECONDS)
    assert witness.exists(), "the job finished while nobody was watching"
    for name in reversed(control_plane):
        platform.release(name)
    wait_for(lambda: customer.has_ended(workload_id), seconds=90, what="the end of the job")
    (lease_us,) = books.check(customer.tenant_id, [workload_id]).values()
    assert 0 <= lease_us - int(witness.read_text()) < OVERHEAD_US_MAX
    (line,) = customer.post("/v1/invoices")["lines"]
    assert line["gpu_us"] == 4 * lease_us
