"""`leasehold parked`: what waits for an operator is listed, and applied again when asked for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chassis.errors import Refused
from chassis.incoming import Incoming
from leasehold.cli.failures import Exit
from tests import servers
from tests.cli.conftest import Run
from tests.cli.recorded import SERVICE, Follower, Log, live


class Mood:
    """Reacts to an event of billing, or refuses as long as something is missing."""

    def __init__(self) -> None:
        self.missing = {"acc_2"}
        self.applied: list[int] = []

    def react(self, event: Incoming, at: int) -> None:
        if event.aggregate_id in self.missing:
            raise Refused("no price is published", code="NO_PRICE")
        self.applied.append(event.position)


@pytest.fixture
def mood() -> Mood:
    return Mood()


@pytest.fixture
def log(database_url: str, tmp_path: Path, mood: Mood) -> Iterator[Log]:
    (tmp_path / "state").mkdir()
    log = Log(database_url)
    follower = Follower(log, "billing", {"billing.account.opened": mood.react})
    with live(log, tmp_path / "state", "nats://nowhere", follower):
        yield log
    log.close()


def test_what_is_parked_is_listed_with_its_cause(log: Log, leasehold: Run) -> None:
    code, out, _ = leasehold("parked")
    assert (code, out) == (0, "Nothing is parked.\n")
    log.park("billing", 7, "acc_1")
    code, out, _ = leasehold("parked")
    _, row, said = out.splitlines()
    assert code == 0
    assert row.split()[:5] == [SERVICE, "billing", "7", "acc_1", "billing.account.opened"]
    assert row.endswith("no price is published")
    assert "leasehold parked redrive" in said
    (found,) = json.loads(leasehold("parked", "-o", "json")[1])["parked"]
    assert (found["service"], found["source"], found["position"]) == (SERVICE, "billing", 7)


def test_redriving_applies_what_it_can_and_says_what_stays(
    log: Log, leasehold: Run, mood: Mood
) -> None:
    for position in (7, 8, 9):
        log.park("billing", position, f"acc_{position % 2 + 1}")
    code, out, _ = leasehold("parked", "redrive", "-o", "json")
    assert (code, services(out)) == (Exit.NEGATIVE, [(SERVICE, 1, 2)])
    mood.missing.clear()
    code, out, _ = leasehold("parked", "redrive", SERVICE, "--source", "billing", "-o", "json")
    assert (code, services(out)) == (0, [(SERVICE, 2, 0)])
    assert mood.applied == [8, 7, 9]
    assert leasehold("parked")[1] == "Nothing is parked.\n"


def test_only_the_source_that_was_named_is_redriven(log: Log, leasehold: Run, mood: Mood) -> None:
    log.park("billing", 8, "acc_1")
    code, out, _ = leasehold("parked", "redrive", "--source", "placement", "-o", "json")
    assert (code, services(out), mood.applied) == (0, [(SERVICE, 0, 0)], [])


@pytest.mark.parametrize("words", [["bakery"], ["--source", "bakery"]])
def test_a_service_nobody_knows_is_a_wrong_command_line(
    log: Log, leasehold: Run, words: list[str]
) -> None:
    code, _, err = leasehold("parked", "redrive", *words)
    assert (code, "'bakery' is none of" in err) == (Exit.USAGE, True)


def test_a_service_that_is_away_does_not_hide_the_others(
    log: Log, leasehold: Run, tmp_path: Path
) -> None:
    log.park("billing", 7, "acc_1")
    path = tmp_path / "state" / "platform.json"
    found: dict[str, Any] = json.loads(path.read_text())
    found["peers"] = {"billing": f"127.0.0.1:{servers.free_port()}", **found["peers"]}
    path.write_text(json.dumps(found))
    code, out, err = leasehold("parked")
    assert (code, "acc_1" in out) == (Exit.UNAVAILABLE, True)
    assert "billing does not answer: UNAVAILABLE" in err


def test_without_a_platform_nothing_can_be_asked(leasehold: Run) -> None:
    code, _, err = leasehold("parked")
    assert (code, "(NO_PLATFORM)" in err) == (Exit.UNAVAILABLE, True)


def services(out: str) -> list[tuple[str, int, int]]:
    found = json.loads(out)["services"]
    return [(one["service"], one["applied"], one["still_parked"]) for one in found]
