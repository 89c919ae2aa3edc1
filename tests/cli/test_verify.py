"""`leasehold verify` on real PostgreSQL and NATS: whatever is changed is found and named."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest

from chassis import ids
from chassis.bus import events_stream
from chassis.envelope import headers, subject
from chassis.events import Recorded
from leasehold.cli.audit import Finding, verify
from leasehold.cli.failures import Exit
from tests import servers
from tests.cli.conftest import Run
from tests.cli.recorded import SERVICE, Log, publish

TENANTS = 5
EVENTS = 2 * TENANTS
FIFTH = "position = 5"
CHANGE_FIFTH = f"update events set data = set_byte(data, 20, get_byte(data, 20) # 1) where {FIFTH}"
FORGE_FIFTH = (
    "update events set data = convert_to(replace(convert_from(data, 'UTF8'), 'acme', 'evil'),"
    f" 'UTF8') where {FIFTH}"
)


@pytest.fixture
def log(database_url: str) -> Iterator[Log]:
    log = Log(database_url)
    log.sign_up(TENANTS)
    yield log
    log.close()


@pytest.fixture
def published(log: Log, nats_url: str) -> Log:
    asyncio.run(publish(log, nats_url))
    return log


def test_an_untouched_log_agrees_with_all_who_saw_it(published: Log, nats_url: str) -> None:
    published.note_sighting("billing")
    finding = checked(published, nats_url)
    assert finding == Finding(
        SERVICE, EVENTS, EVENTS, witnesses=1, head=published.store.head().hash.hex()
    )


def test_an_empty_log_is_right(database_url: str, nats_url: str) -> None:
    log = Log(database_url)
    finding = checked(log, nats_url)
    log.close()
    assert (finding.events, finding.difference, finding.unchecked) == (0, "", "")


# One way to change a database; what is said about it.
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (CHANGE_FIFTH, "position 5: the stored bytes are not those that were hashed (gateway.tena"),
        (f"update events set hash = sha256(hash) where {FIFTH}", "position 5: the stored bytes"),
        (f"delete from events where {FIFTH}", "position 5 is missing"),
        (f"delete from events where position = {EVENTS}", "position 10 is missing: the head is at"),
        (
            "update events set position = case position when 5 then 106 when 6 then 105 end"
            " where position in (5, 6);"
            "update events set position = position - 100 where position > 100",
            "position 5: the stored bytes are not",
        ),
        ("update heads set hash = sha256(hash)", "the head at 10 has another hash"),
        ("update heads set position = 9", "position 10 lies beyond the head"),
        (f"update events set tenant_id = 'ten_x' where {FIFTH}", "position 5: tenant_id differs"),
        (f"update events set topic = 'a.b.c' where {FIFTH}", "position 5: topic differs"),
        (f"update events set version = 9 where {FIFTH}", "position 5: version differs"),
        ("drop table events", "its tables are missing"),
    ],
)
def test_a_changed_database_is_found_out(
    published: Log, nats_url: str, change: str, said: str
) -> None:
    published.execute(change)
    assert checked(published, nats_url).difference.startswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (FORGE_FIFTH, "position 5: the bus published another event than is stored"),
        (
            f"delete from events where position > {EVENTS - 2}",
            "position 9 is missing: the bus has 9",
        ),
    ],
)
def test_a_chain_rewritten_as_a_whole_contradicts_the_bus(
    published: Log, nats_url: str, change: str, said: str
) -> None:
    published.note_sighting("billing")
    published.execute(change)
    published.rewrite_chain()
    assert checked(published, nats_url).difference.startswith(said)


def test_what_the_bus_no_longer_has_is_said_to_lie_before_what_it_has(
    log: Log, nats_url: str
) -> None:
    kept = [(row, row.data) for row in log.store.read(6, 100)]
    asyncio.run(publish_by_hand(log, nats_url, kept))
    log.execute(FORGE_FIFTH)
    log.rewrite_chain()
    said = "position 7 or one before it: the bus published another event than is stored"
    assert checked(log, nats_url).difference == said


def test_of_several_services_the_one_that_applied_least_is_heard(log: Log, nats_url: str) -> None:
    log.note_sighting("billing")
    log.sign_up()
    log.note_sighting("admission")
    log.execute(FORGE_FIFTH)
    log.rewrite_chain()
    said = "position 10 or one before it: billing applied another event"
    assert checked(log, nats_url).difference == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (FORGE_FIFTH, "position 10 or one before it: billing applied another event"),
        (f"delete from events where position > {EVENTS - 2}", "position 9 is missing: billing app"),
    ],
)
def test_without_the_bus_the_services_that_applied_it_are_witnesses(
    log: Log, nats_url: str, change: str, said: str
) -> None:
    log.note_sighting("billing")
    log.execute(change)
    log.rewrite_chain()
    assert checked(log, nats_url).difference.startswith(said)


def test_what_is_not_an_event_is_named_even_if_its_hash_is_right(log: Log, nats_url: str) -> None:
    log.execute(f"update events set data = 'not JSON' where {FIFTH}")
    log.rewrite_chain()
    said = "position 5: the form of the event differs from the hashed bytes"
    assert checked(log, nats_url).difference == said


Tamper = Callable[[list[Recorded]], list[tuple[Recorded, bytes]]]


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (
            lambda rows: [(row, row.data) for row in rows if row.position != 5],
            "position 5 was left",
        ),
        (
            lambda rows: [(row, row.data) for row in [*rows, rows[4]]],
            "position 5 is on the bus aft",
        ),
        (lambda rows: [(row, swapped(row)) for row in rows], "position 1: the bytes on the bus we"),
        (lambda rows: [(row, b"{}") for row in rows], "message 1 on the bus was not published by"),
    ],
)
def test_a_changed_stream_is_found_out(log: Log, nats_url: str, tamper: Tamper, said: str) -> None:
    asyncio.run(publish_by_hand(log, nats_url, tamper(log.store.read(0, EVENTS))))
    assert checked(log, nats_url).difference.startswith(said)


def test_a_stream_that_begins_late_or_lags_is_right(log: Log, nats_url: str) -> None:
    middle = [(row, row.data) for row in log.store.read(0, EVENTS)[3:7]]
    asyncio.run(publish_by_hand(log, nats_url, middle))
    finding = checked(log, nats_url)
    assert (finding.events, finding.published, finding.difference) == (EVENTS, 4, "")


def test_an_event_too_large_for_the_bus_is_not_missed_there(log: Log, nats_url: str) -> None:
    def sign_up(at: int) -> None:
        log.gateway.sign_up(
            "ten_large", "acme", "default", client_id="c" * 1_100_000, secret_sha256="", at=at
        )

    log.writer.command(sign_up).result(10)
    log.sign_up()
    asyncio.run(publish(log, nats_url, until=EVENTS + 3))
    finding = checked(log, nats_url)
    assert (finding.events, finding.published) == (EVENTS + 4, EVENTS + 3)
    assert finding.difference == ""


def test_a_log_is_right_also_while_it_grows(published: Log, nats_url: str) -> None:
    stop = threading.Event()

    def grow() -> None:
        while not stop.is_set():
            published.sign_up()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        findings = [checked(published, nats_url) for _ in range(5)]
    finally:
        stop.set()
        thread.join()
    assert {finding.difference for finding in findings} == {""}
    assert findings[-1].events > findings[0].events


def test_a_bus_that_is_away_leaves_the_check_undone_and_a_difference_still_counts(
    log: Log,
) -> None:
    away = f"nats://127.0.0.1:{servers.free_port()}"
    finding = checked(log, away)
    assert (finding.difference, finding.published) == ("", 0)
    assert finding.unchecked.startswith("the bus: NATS is away")
    log.execute(CHANGE_FIFTH)
    assert checked(log, away).difference.startswith("position 5")


def test_the_command_names_the_difference_and_fails(
    published: Log, nats_url: str, leasehold: Run, tmp_path: Path
) -> None:
    write_addresses(tmp_path, published.url, nats_url)
    code, out, _ = leasehold("verify", SERVICE)
    assert (code, "ok" in out) == (0, True)
    published.execute(CHANGE_FIFTH)
    code, out, _ = leasehold("verify", SERVICE)
    assert (code, "DIFFERS  position 5: " in out) == (Exit.NEGATIVE, True)
    code, out, _ = leasehold("verify", SERVICE, "-o", "json")
    (found,) = json.loads(out)["services"]
    assert (code, found["service"], found["events"]) == (Exit.NEGATIVE, SERVICE, 4)
    assert found["difference"].startswith("position 5: ")


def test_what_cannot_be_looked_at_is_not_called_right(
    log: Log, leasehold: Run, tmp_path: Path
) -> None:
    nobody = servers.free_port()
    write_addresses(tmp_path, log.url, f"nats://127.0.0.1:{nobody}")
    code, out, _ = leasehold("verify", SERVICE)
    assert (code, "UNCHECKED" in out) == (Exit.UNAVAILABLE, True)
    write_addresses(tmp_path, f"postgresql://x@127.0.0.1:{nobody}/y", "nats://127.0.0.1")
    code, out, err = leasehold("verify", SERVICE)
    assert (code, out) == (Exit.UNAVAILABLE, "")
    assert "(DATABASE_AWAY)" in err


def test_an_unknown_service_is_a_wrong_command_line(leasehold: Run, tmp_path: Path) -> None:
    write_addresses(tmp_path, "postgresql://", "nats://")
    code, _, err = leasehold("verify", "bakery")
    assert (code, "'bakery' is none of" in err) == (Exit.USAGE, True)


def checked(log: Log, nats_url: str) -> Finding:
    return asyncio.run(verify(log.url, nats_url, SERVICE))


def swapped(row: Recorded) -> bytes:
    return row.data.replace(b'"acme"', b'"evil"').replace(b"000", b"001", 1)


async def publish_by_hand(log: Log, nats_url: str, messages: list[tuple[Recorded, bytes]]) -> None:
    client = await nats.connect(nats_url)
    jetstream = client.jetstream()
    await jetstream.add_stream(events_stream(SERVICE))
    for row, data in messages:
        named = {**headers(log.origin(), row), "Nats-Msg-Id": ids.new("msg")}
        await jetstream.publish(subject(row), data, headers=named)
    await client.close()


def write_addresses(folder: Path, postgres_url: str, nats_url: str) -> None:
    (folder / "state").mkdir(exist_ok=True)
    document = {"postgres_url": postgres_url, "nats_url": nats_url, "peers": {}}
    (folder / "state" / "platform.json").write_text(json.dumps(document))
