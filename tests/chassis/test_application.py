"""The core: what a failed command leaves behind, and what a rebuild gives."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis import canonical
from chassis.application import ChainBroken
from chassis.errors import NotFound, Refused
from chassis.events import Cause, Codec, UnknownTopic
from chassis.memory import Direct, MemoryLog
from tests.chassis.shelf import Depot, Shelf

NOON = 1_767_268_800_000_000
BY_NOBODY = Cause()


def test_an_event_carries_who_when_and_why() -> None:
    log, depot, run = depot_with_a_shelf()
    run(lambda: depot.stock("shf_1", 3, at=NOON + 5), Cause("tenant:ten_1", "cor_1", "req_1"))
    assert canonical.loads(log.events[-1].data) == {
        "goods": 3,
        "meta": {
            "actor": "tenant:ten_1",
            "aggregate_id": "shf_1",
            "at": NOON + 5,
            "causation_id": "req_1",
            "correlation_id": "cor_1",
            "tenant_id": "ten_1",
            "topic": "depot.shelf.stocked",
            "version": 2,
        },
    }


def test_a_failed_command_leaves_nothing_behind() -> None:
    log, depot, run = depot_with_a_shelf()
    run(lambda: depot.mount("shf_2", "ten_1", 2, at=NOON))
    run(lambda: depot.stock("shf_1", 5, at=NOON))
    written = len(log.events)
    with pytest.raises(Refused):
        run(lambda: depot.move("shf_1", "shf_2", 5, at=NOON))
    assert len(log.events) == written
    assert depot.get(Shelf, "shf_1").goods == 5
    assert depot.by_tenant.goods == {"ten_1": 5}


def test_a_command_sees_what_the_ones_before_it_did() -> None:
    _, depot, run = depot_with_a_shelf()
    assert [run(lambda: depot.stock("shf_1", 2, at=NOON)) for _ in range(3)] == [2, 4, 6]


def test_an_unknown_aggregate_is_not_found_by_its_noun() -> None:
    _, depot, run = depot_with_a_shelf()
    with pytest.raises(NotFound) as missing:
        run(lambda: depot.stock("shf_404", 1, at=NOON))
    assert missing.value.code == "SHELF_NOT_FOUND"


def test_a_rebuild_gives_the_same_bytes_and_so_does_a_snapshot() -> None:
    log, depot, run = depot_with_a_shelf()
    for goods in (1, 2, 3):
        run(lambda goods=goods: depot.stock("shf_1", goods, at=NOON))
    rebuilt, restored = Depot(log), Depot(log)
    rebuilt.catch_up()
    restored.load(depot.snapshot())
    assert rebuilt.state() == depot.state() == restored.state()


def test_a_small_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Depot, "cache_size", 1)
    log, depot, run = depot_with_a_shelf()
    run(lambda: depot.mount("shf_2", "ten_2", 9, at=NOON))
    for shelf in ("shf_1", "shf_2") * 3:
        run(lambda shelf=shelf: depot.stock(shelf, 1, at=NOON))
    rebuilt = Depot(log)
    rebuilt.catch_up()
    for shelf in ("shf_1", "shf_2"):
        assert rebuilt.get(Shelf, shelf).goods == depot.get(Shelf, shelf).goods == 3


def test_a_command_may_change_more_than_the_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Depot, "cache_size", 1)
    log, depot, run = depot_with_a_shelf()
    run(lambda: depot.mount("shf_2", "ten_2", 9, at=NOON))
    run(lambda: depot.stock("shf_1", 5, at=NOON))
    run(lambda: depot.move("shf_1", "shf_2", 5, at=NOON))
    assert (depot.get(Shelf, "shf_1").goods, depot.get(Shelf, "shf_2").goods) == (0, 5)


def test_what_happens_by_itself_follows_from_what_happened_before() -> None:
    log, depot, run = depot_with_a_shelf(Cause(correlation_id="cor_1"))
    run(lambda: depot.stock("shf_1", 1, at=NOON))
    run(lambda: depot.stock("shf_1", 1, at=NOON), Cause(causation_id="orders/0/9"))
    run(lambda: depot.stock("shf_1", 1, at=NOON))
    causes = [canonical.loads(event.data)["meta"]["causation_id"] for event in log.events]
    assert causes == ["", "depot/0/1", "orders/0/9", "depot/0/3"]


def test_a_changed_byte_breaks_the_chain_at_its_position() -> None:
    log, depot, run = depot_with_a_shelf()
    for _ in range(4):
        run(lambda: depot.stock("shf_1", 1, at=NOON))
    log.events[2] = log.events[2]._replace(
        data=log.events[2].data.replace(b'"goods":1', b'"goods":9')
    )
    with pytest.raises(ChainBroken) as broken:
        Depot(log).catch_up()
    assert broken.value.position == 3


def test_history_survives_a_tighter_rule() -> None:
    log, depot, run = depot_with_a_shelf()
    run(lambda: depot.stock("shf_1", 9, at=NOON))
    rebuilt = Depot(log)
    rebuilt.catch_up()
    rebuilt.get(Shelf, "shf_1").goods_max = 1
    assert rebuilt.get(Shelf, "shf_1").goods == 9


def test_a_topic_that_names_a_module_imports_nothing() -> None:
    before = set(sys.modules)
    with pytest.raises(UnknownTopic):
        Codec([Shelf]).decode("xmlrpc.server:SimpleXMLRPCServer", b"{}")
    assert set(sys.modules) == before


def test_a_forgotten_save_is_a_bug_that_shows() -> None:
    _, depot, run = depot_with_a_shelf()
    with pytest.raises(AssertionError, match="not saved"):
        run(lambda: depot.get(Shelf, "shf_1").stock(1, at=NOON))


@given(st.recursive(st.integers(-(2**53), 2**53) | st.text() | st.booleans(), st.lists))
def test_canonical_json_is_stable(value: object) -> None:
    data = canonical.dumps({"b": value, "a": value})
    assert canonical.dumps(canonical.loads(data)) == data
    assert data.index(b'"a"') < data.index(b'"b"')


@pytest.mark.parametrize("value", [1.5, [1, [2.0]], {"b": float("nan")}])
def test_a_float_has_no_canonical_form(value: object) -> None:
    with pytest.raises(canonical.NotCanonical):
        canonical.dumps({"a": value})


def depot_with_a_shelf(cause: Cause = BY_NOBODY) -> tuple[MemoryLog, Depot, Direct]:
    log = MemoryLog()
    depot = Depot(log)
    run = Direct(depot, log)
    run(lambda: depot.mount("shf_1", "ten_1", 10, at=NOON), cause)
    return log, depot, run
