"""`leasehold replay --check`: a service folded from zero equals the live one, or it is named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.cli import rebuilds
from leasehold.cli.failures import Exit
from leasehold.cli.rebuilds import difference, first_difference
from tests import servers
from tests.cli.conftest import Run
from tests.cli.recorded import SERVICE, Log, live


@pytest.fixture
def log(database_url: str, tmp_path: Path) -> Iterator[Log]:
    (tmp_path / "state").mkdir()
    log = Log(database_url)
    log.sign_up(3)
    with live(log, tmp_path / "state", "nats://nowhere"):
        yield log
    log.close()


def test_replay_gives_the_live_state_and_a_difference_is_named(log: Log, leasehold: Run) -> None:
    code, out, _ = leasehold("replay", "--check", SERVICE, "-o", "json")
    expected = {"service": SERVICE, "position": 6, "difference": ""}
    assert (code, json.loads(out)) == (0, {"services": [expected]})

    tenants: dict[str, Any] = log.gateway.views["tenants_by_id"].state()["tenants"]
    tenant_id = min(tenants)
    log.writer.query(lambda: tenants[tenant_id].update(active=False)).result(5)
    code, out, _ = leasehold("replay", "--check", SERVICE)
    said = f"views.tenants_by_id.tenants.{tenant_id}.active: live false, rebuilt true"
    assert (code, said in out) == (Exit.NEGATIVE, True)


def test_a_log_that_cannot_be_folded_is_a_difference_too(log: Log, leasehold: Run) -> None:
    log.execute("update events set data = set_byte(data, 9, 33) where position = 2")
    code, out, _ = leasehold("replay", "--check", SERVICE)
    assert code == Exit.NEGATIVE
    assert "cannot be rebuilt" in out
    assert "the chain breaks at position 2" in out


def test_a_service_that_does_not_answer_cannot_be_checked(
    log: Log, leasehold: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilds, "PAUSE_SECONDS", 0.01)
    path = tmp_path / "state" / "platform.json"
    peers = {"peers": {SERVICE: f"127.0.0.1:{servers.free_port()}"}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **peers}))
    code, out, err = leasehold("replay", "--check", SERVICE)
    assert (code, out) == (Exit.UNAVAILABLE, "")
    assert "gateway does not tell its state (UNAVAILABLE" in err


def test_replay_only_checks(leasehold: Run) -> None:
    code, _, err = leasehold("replay")
    assert (code, "--check" in err) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("live_", "rebuilt", "said"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b: live 1, rebuilt 2"),
        ({"a": None}, {}, "a: live null, rebuilt nothing"),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, 'a.1.b: live "x", rebuilt "y"'),
        ({"a": [1]}, {"a": [1, 2]}, "a.1: live nothing, rebuilt 2"),
        ({"a": {}}, {"a": []}, "a: live {}, rebuilt []"),
        ({"a": 1}, {"a": True}, "a: live 1, rebuilt true"),
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}, "a: live 1, rebuilt 3"),
    ],
)
def test_the_first_difference_is_named_with_both_values(
    live_: Any, rebuilt: Any, said: str
) -> None:
    assert first_difference(live_, rebuilt) == said
    assert first_difference(live_, live_) == ""


def test_equal_values_in_other_bytes_are_a_difference() -> None:
    assert difference(b'{"a":1}', b'{"a": 1}') == "the bytes differ"
    assert difference(b'{"a":1}', b'{"a":1}') == ""


def test_long_values_are_shortened_with_their_hash() -> None:
    said = first_difference({"a": "x" * 1000}, {"a": "y" * 1000})
    assert len(said) < 400
    assert said.count("SHA-256") == 2
