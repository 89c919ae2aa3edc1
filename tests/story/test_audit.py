"""The record can be checked by anybody with the command line, and whoever changes it is found.

One changed byte is tried on the live database. What a service would notice itself is tried on a
copy of all logs: the bus and the live services are then the witnesses against it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from chassis import canonical, schema
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import SERVICES
from tests.story.customer import SignUp
from tests.story.heads import Heads
from tests.waiting import wait_for

pytestmark = pytest.mark.story

COPY = "audit_copy"
TABLES = ("events", "heads", "cursors")
Connection = psycopg.Connection[Any]


@pytest.fixture
def worked(platform: Platform, sign_up: SignUp) -> Platform:
    """A platform at rest that has something on record in every log that tenants fill."""
    customer = sign_up("audited")
    workload_id = customer.submit("audited", "true")
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    heads = Heads(platform)
    heads.at_rest()
    customer.post("/v1/invoices")
    heads.at_rest()
    heads.close()
    return platform


@pytest.fixture
def copy(worked: Platform, tmp_path: Path) -> Iterator["Copy"]:
    url = worked.addresses()["postgres_url"]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"drop database if exists {COPY} with (force)")
        admin.execute(f"create database {COPY}")
        try:
            copied_url = urlunsplit(urlsplit(url)._replace(path=f"/{COPY}"))
            with psycopg.connect(copied_url, autocommit=True) as connection:
                fill(url, connection)
                yield Copy(connection, state_with(worked, copied_url, tmp_path / "state"))
        finally:
            admin.execute(f"drop database if exists {COPY} with (force)")


class Copy:
    """All logs in another database, and a state folder that names it instead of the real one."""

    def __init__(self, connection: Connection, state: Path) -> None:
        self.connection = connection
        self.state = state

    def middle(self, service: str) -> int:
        row = self.connection.execute(f"select position / 2 + 1 from {service}.heads").fetchone()
        assert row is not None
        return int(row[0])

    def rewrite(self, service: str, position: int, old: bytes, new: bytes) -> None:
        """Change an event and everything that follows from it, as an insider would."""
        rows = self.connection.execute(
            f"select position, data, hash from {service}.events where position >= %s - 1"
            " order by position",
            (position,),
        ).fetchall()
        hash_ = rows[0][2] if position > 1 else canonical.GENESIS
        for place, data, _ in rows[1:] if position > 1 else rows:
            if place == position:
                assert old in data
                data = data.replace(old, new)
            hash_ = canonical.chained(hash_, data)
            self.connection.execute(
                f"update {service}.events set data = %s, hash = %s where position = %s",
                (data, hash_, place),
            )
        self.connection.execute(f"update {service}.heads set hash = %s", (hash_,))


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
    read = leasehold(worked.state.path, "replay", "--check")
    assert (read.returncode, read.stdout.count(" ok")) == (0, len(SERVICES))
    findings = document(leasehold(worked.state.path, "replay", "--check", "-o", "json"), 0)
    assert [finding["service"] for finding in findings] == list(SERVICES)
    assert all(finding["position"] and not finding["difference"] for finding in findings)


def test_one_changed_byte_in_the_database_is_found(worked: Platform) -> None:
    with psycopg.connect(worked.addresses()["postgres_url"], autocommit=True) as connection:
        with changed_byte(connection, "admission", 2):
            (finding,) = document(
                leasehold(worked.state.path, "verify", "-o", "json"), 1, "admission"
            )
            assert finding["difference"].startswith("position 2: the stored bytes are not those")
            read = leasehold(worked.state.path, "verify", "admission")
            assert read.returncode == 1
            assert "DIFFERS" in read.stdout
            assert "position 2" in read.stdout
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


def test_a_chain_rewritten_from_the_middle_contradicts_who_has_seen_it(copy: Copy) -> None:
    for service in ("gateway", "aggregator"):
        position = copy.middle(service)
        copy.rewrite(service, position, b'"at":1', b'"at":2')
        found = difference(copy, service)
        assert found.startswith("position ")
        assert "another event" in found
        if service == "aggregator":  # nobody reacts to it, so only the bus has seen it
            assert found == f"position {position}: the bus published another event than is stored"


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


def document(
    done: subprocess.CompletedProcess[str], exit_code: int, only: str = ""
) -> list[dict[str, Any]]:
    """What a check says about each service, or about those with a difference."""
    assert done.returncode == exit_code, done.stdout + done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)["services"]
    if not only:
        return findings
    wrong = [finding for finding in findings if finding["difference"]]
    assert [finding["service"] for finding in wrong] == [only]
    return wrong


def difference(copy: Copy, service: str) -> str:
    """What is wrong with one log of the copy; nothing is wrong with any other."""
    (finding,) = document(leasehold(copy.state, "verify", "-o", "json"), 1, service)
    return str(finding["difference"])


@contextmanager
def changed_byte(connection: Connection, service: str, position: int) -> Iterator[None]:
    """One bit of one byte of one event, and back again whatever happens."""
    flip = f"""update {service}.events set data = set_byte(data, 10, get_byte(data, 10) # 1)
        where position = {position}"""
    assert connection.execute(flip.encode()).rowcount == 1
    try:
        yield
    finally:
        connection.execute(flip.encode())


def fill(source_url: str, target: Connection) -> None:
    with psycopg.connect(source_url) as source:
        source.execute("set transaction isolation level repeatable read")
        for service in SERVICES:
            target.execute(schema.ddl(service, "current_user").encode())
            for table in TABLES:
                name = sql.Identifier(service, table)
                out = sql.SQL("copy {} to stdout (format binary)").format(name)
                into = sql.SQL("copy {} from stdin (format binary)").format(name)
                with source.cursor().copy(out) as rows, target.cursor().copy(into) as copied:
                    for data in rows:
                        copied.write(data)


def state_with(platform: Platform, postgres_url: str, folder: Path) -> Path:
    shutil.copytree(platform.identities.of("operator"), folder / "identity" / "operator")
    addresses = {**platform.addresses(), "postgres_url": postgres_url}
    (folder / "platform.json").write_text(json.dumps(addresses))
    return folder
