"""Events as others see them: bytes, messages, replay."""

from typing import Any

import pytest
from google.protobuf import json_format

from billing import policy
from billing.application import Billing
from billing.money import HOUR_US, NANOS
from billing.policy import Feed, Verdict
from chassis import canonical
from tests.billing.funding_story import change_funds
from tests.billing.market import Market, change_terms, commit_and_exchange
from tests.billing.provider_world import rent_and_settle
from tests.billing.world import H100, LEASE, SECOND, World, hold, slice_, slices
from tests.test_contracts import message_of

# The tree over the log has a world of its own.
ELSEWHERE = "billing.log_tree."


def test_every_event_parses_as_its_message() -> None:
    world = eventful_world()
    seen = set()
    for event in world.log.events:
        message: Any = json_format.Parse(event.data, message_of(event.topic)())
        assert message.meta.topic == event.topic
        seen.add(event.topic)
    told = {topic for topic in world.billing.codec.topics if not topic.startswith(ELSEWHERE)}
    assert seen == told


def test_every_event_balances() -> None:
    for event in eventful_world().log.events:
        postings = canonical.loads(event.data).get("postings", [])
        assert sum(posting["amount_nanos"] for posting in postings) == 0


def test_a_rebuild_gives_the_same_bytes() -> None:
    world = eventful_world()
    assert world.rebuilt().state() == world.billing.state()


def test_a_snapshot_changes_nothing_and_keeps_the_order_of_what_is_due() -> None:
    world = eventful_world()
    world.top_up(10 * NANOS)
    for lease_id in ("lse_z", "lse_a"):
        world.running(lease_id)
    world.place(hold("lse_y"))
    world.place(hold("lse_b"))
    restored = Billing(world.log)
    restored.load(world.billing.snapshot())
    assert restored.state() == world.billing.state()
    assert restored.silence.since(world.now, 10) == world.billing.silence.since(world.now, 10)
    assert restored.silence.since(world.now, 1) == ["mtr_lse_z"]
    assert restored.holds.expired(2 * world.now, 9) == ["lse_y", "lse_b"]


def test_history_survives_tighter_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    world = eventful_world()
    monkeypatch.setattr(policy, "verdict", lambda *_: Verdict.RETRY)
    monkeypatch.setattr(policy, "feed", lambda **_: Feed())
    monkeypatch.setattr(policy, "hold_size", lambda *_, **__: 10**18)
    assert world.rebuilt().state() == world.billing.state()


def eventful_world() -> World:
    """A world in which everything that billing records has happened."""
    world = Market(funds=NANOS)
    world.running()
    world.wait(40 * SECOND)
    world.tick()
    world.wait(HOUR_US)
    reports = slices(30 * SECOND, HOUR_US // 2, HOUR_US)
    assert world.report(*reports, slice_(4, 0, 0))[-1] is Verdict.INTERVAL
    world.ended(HOUR_US // 2)
    world.invoice()
    assert world.cost()["amount_nanos"] == H100.amount(HOUR_US // 2)
    assert world.topics().count("account.exhausted") == 1, LEASE
    change_terms(world)
    change_funds(world)
    commit_and_exchange(world)
    rent_and_settle(world)
    return world
