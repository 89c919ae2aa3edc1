"""The record can be checked by anybody with the command line, and whoever changes it is found.

One changed byte is tried on the live database. What a service would notice itself is tried on a
copy of all logs: the bus and the live services are then the witnesses against it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import SERVICES
from tests.story.copies import Copy, copied
from tests.story.customer import funded_customer
from tests.story.heads import Heads
from tests.waiting import wait_for

pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def worked(platform: Platform) -> Platform:
    """A platform at rest that has something on record in every log that tenants fill."""
    customer, heads = funded_customer(platform, "audited"), Heads(platform)
    workload_id = customer.submit("audited", "true")
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    heads.at_rest()
    customer.post("/v1/invoices")
    heads.at_rest()
    customer.close()
    heads.close()
    return platform


@pytest.fixture
def copy(worked: Platform, tmp_path: Path) -> Iterator[Copy]:
    with copied(worked, tmp_path / "state") as copy:
        yield copy


def test_a_whole_record_is_verified_for_people_and_for_programs(worked: Platform) -> None:
    read = leasehold(worked.state.path, "verify")
    assert (read.returncode, read.stderr.count("is checked")) == (0, len(SERVICES))
    for service in SERVICES:
        (line,) = (line for line in read.stdout.splitlines() if line.startswith(service))
        assert " ok" in line
    findings = document(leasehold(worked.state.path, "verify", "-o", "json"), 0)
    for finding in findings:
        assert finding["events"] == finding["published"], finding
        assert (finding["difference"], finding["unchecked"]) == ("", "")
    assert {finding["service"] for finding in findings if finding["witnesses"]} >= {
        "gateway",
        "admission",
        "placement",
    }


def test_every_service_rebuilt_from_zero_equals_its_live_state(worked: Platform) -> None:
    read = leasehold(worked.state.path, "replay", "--check", "gateway", "billing")
    assert (read.returncode, read.stdout.count(" ok")) == (0, 2)
    findings = document(leasehold(worked.state.path, "replay", "--check", "-o", "json"), 0)
    assert [finding["service"] for finding in findings] == list(SERVICES)
    assert all(finding["position"] and not finding["difference"] for finding in findings)


def test_one_changed_byte_in_the_database_is_found(worked: Platform) -> None:
    with changed_byte(worked.addresses()["postgres_url"], "admission", 2):
        found = document(leasehold(worked.state.path, "verify", "-o", "json"), 1)
        (wrong,) = (finding for finding in found if finding["difference"])
        assert wrong["service"] == "admission"
        assert wrong["difference"].startswith("position 2: the stored bytes are not those")
        read = leasehold(worked.state.path, "verify", "admission")
        assert read.returncode == 1
        (line,) = (line for line in read.stdout.splitlines() if line.startswith("admission"))
        assert "DIFFERS" in line
        assert "position 2" in line
    assert leasehold(worked.state.path, "verify", "admission").returncode == 0


def test_a_removed_row_is_missed(copy: Copy) -> None:
    position = copy.middle("billing")
    copy.connection.execute("delete from billing.events where position = %s", (position,))
    assert difference(copy, "billing") == f"position {position} is missing"


def test_a_shortened_log_contradicts_who_has_seen_more(copy: Copy) -> None:
    row = copy.connection.execute(
        "delete from billing.events where position = (select position from billing.heads)"
        " returning position"
    ).fetchone()
    assert row is not None
    copy.connection.execute(
        "update billing.heads set position = %s, hash ="
        " (select hash from billing.events where position = %s)",
        (row[0] - 1, row[0] - 1),
    )
    assert difference(copy, "billing").startswith(f"position {row[0]} is missing")


@pytest.mark.parametrize("service", ["gateway", "aggregator"])
def test_a_chain_rewritten_from_the_middle_contradicts_who_has_seen_it(
    copy: Copy, service: str
) -> None:
    position = copy.middle(service)
    copy.rewrite(service, position, b'"at":1', b'"at":2')
    # Others have applied the gateway's, too, but only the bus knows where the two part.
    expected = f"position {position}: the bus published another event than is stored"
    assert difference(copy, service) == expected


def test_a_column_that_lies_about_its_event_is_found(copy: Copy) -> None:
    position = copy.middle("placement")
    copy.connection.execute(
        "update placement.events set tenant_id = 'ten_other' where position = %s", (position,)
    )
    expected = f"position {position}: tenant_id differs from the hashed bytes"
    assert difference(copy, "placement") == expected


def test_a_rewritten_history_does_not_give_the_live_state(copy: Copy) -> None:
    copy.rewrite("gateway", 1, b'"name":"', b'"name":"not-')
    command = ("replay", "--check", "-o", "json", "gateway")
    (finding,) = document(leasehold(copy.state, *command), 1)
    assert "not-" in finding["difference"]
    copy.connection.execute("update gateway.events set data = data || ' ' where position = 2")
    (finding,) = document(leasehold(copy.state, *command), 1)
    assert finding["difference"].startswith("cannot be rebuilt")


def leasehold(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "leasehold.cli", *words],
        env={**os.environ, "LEASEHOLD_STATE": str(state)},
        capture_output=True,
        text=True,
        timeout=90,
    )


def document(done: subprocess.CompletedProcess[str], exit_code: int) -> list[dict[str, Any]]:
    """What a check says about each service."""
    assert done.returncode == exit_code, done.stdout + done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)["services"]
    return findings


def difference(copy: Copy, service: str) -> str:
    (finding,) = document(leasehold(copy.state, "verify", "-o", "json", service), 1)
    assert finding["service"] == service
    return str(finding["difference"])


@contextmanager
def changed_byte(postgres_url: str, service: str, position: int) -> Iterator[None]:
    """One bit of one event, and back again whatever happens.

    An early event: no running service reads it again, so only an auditor can notice.
    """
    flip = f"""update {service}.events set data = set_byte(data, 10, get_byte(data, 10) # 1)
        where position = {position}"""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        assert connection.execute(flip.encode()).rowcount == 1
        try:
            yield
        finally:
            connection.execute(flip.encode())
