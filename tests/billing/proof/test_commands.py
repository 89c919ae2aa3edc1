"""What is recorded about the tree: only what the key in force has signed, and replay agrees."""

import pytest

from billing.domain.log_tree import StaleHead
from billing.proof import heads
from chassis.errors import Invalid, Refused
from tests.billing.proof.files import Key
from tests.billing.world import World

KEY, OTHER = Key(1), Key(2)


@pytest.fixture
def world() -> World:
    world = World()
    world.tell(lambda at: world.billing.open_tree(KEY.public, at=at))
    return world


def test_a_signed_head_is_recorded_and_replay_agrees(world: World) -> None:
    record(world, KEY, size=3)
    assert world.billing.signed.size == 3
    assert world.billing.signed.position == len(world.log.events)
    assert world.rebuilt().state() == world.billing.state()


def test_a_tree_is_opened_once(world: World) -> None:
    world.tell(lambda at: world.billing.open_tree(OTHER.public, at=at))
    assert world.billing.signed.log_id == heads.log_name(0, KEY.id)
    assert world.topics().count("log_tree.opened") == 1


def test_a_head_that_the_key_in_force_has_not_signed_is_refused(world: World) -> None:
    with pytest.raises(Refused) as refused:
        record(world, OTHER, size=3)
    assert refused.value.code == "HEAD_NOT_SIGNED"
    with pytest.raises(Refused) as refused:
        record(world, KEY, size=3, said=2)
    assert refused.value.code == "HEAD_NOT_SIGNED"
    assert "log_tree.head_signed" not in world.topics()


def test_a_head_goes_forward_and_not_beyond_the_log(world: World) -> None:
    record(world, KEY, size=3)
    for size in (3, 2):
        with pytest.raises(StaleHead):
            record(world, KEY, size=size)
    for size in (0, len(world.log.events) + 1):
        with pytest.raises(Invalid):
            record(world, KEY, size=size)


def test_only_the_key_in_force_announces_the_next(world: World) -> None:
    with pytest.raises(Refused) as refused:
        rotate(world, by=OTHER, to=OTHER)
    assert refused.value.code == "KEY_NOT_SIGNED"
    rotate(world, by=KEY, to=OTHER)
    with pytest.raises(Refused):
        record(world, KEY, size=3)
    record(world, OTHER, size=3)
    assert [key["key_id"] for key in world.billing.signed.keys] == [KEY.id, OTHER.id]
    assert world.rebuilt().state() == world.billing.state()


def test_a_head_is_due_for_an_invoice_at_once_and_for_the_rest_in_time(world: World) -> None:
    signed, period = world.billing.signed, 60_000_000
    record(world, KEY, size=len(world.log.events))
    assert not signed.is_due(1 << 62, period)
    world.top_up(1)
    signed_at = signed.head["signed_at"]
    assert not signed.is_due(signed_at + period - 1, period)
    assert signed.is_due(signed_at + period, period)
    world.running()
    world.wait(1_000_000)
    world.ended(1_000_000)
    world.invoice()
    assert signed.is_due(signed_at, period)
    record(world, KEY, size=len(world.log.events))
    assert not signed.is_due(1 << 62, period)


def record(world: World, key: Key, *, size: int, said: int = 0) -> None:
    head = key.head(world.billing.signed.log_id, said or size, b"r" * 32)
    world.tell(
        lambda at: world.billing.record_head(
            size, head["root"], head["signed_at"], head["signature"], at=at
        )
    )


def rotate(world: World, *, by: Key, to: Key) -> None:
    announced = by.announce(world.billing.signed.log_id, to)
    if by is not KEY:
        text = heads.key_text(world.billing.signed.log_id, KEY.id, to.public)
        announced["signature"] = by.sign(text)
    world.tell(lambda at: world.billing.rotate_key(to.public, announced["signature"], at=at))
