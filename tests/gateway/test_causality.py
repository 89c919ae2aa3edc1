"""The order of a trail: no effect before its cause, positions kept, always the same."""

import random
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.causality import in_causal_order


@dataclass(frozen=True)
class Event:
    service: str
    position: int
    at: int
    causation_id: str = ""

    @property
    def event_id(self) -> str:
        return f"{self.service}/0/{self.position}"


def test_a_story_is_told_from_cause_to_effect_though_clocks_disagree() -> None:
    submitted = Event("admission", 1, at=50, causation_id="req_1")
    held = Event("placement", 1, at=10, causation_id="admission/0/1")
    paid = Event("billing", 1, at=20, causation_id="admission/0/1")
    admitted = Event("admission", 2, at=60, causation_id="billing/0/1")
    bound = Event("placement", 2, at=30, causation_id="admission/0/2")
    story = [submitted, held, paid, admitted, bound]
    assert in_causal_order(reversed(story)) == story


def test_without_causes_the_time_decides_and_then_the_name() -> None:
    events = [Event("b", 1, 5), Event("a", 1, 5), Event("c", 1, 4)]
    assert [event.service for event in in_causal_order(events)] == ["c", "a", "b"]


def test_forged_causes_in_a_circle_lose_no_event_and_keep_positions() -> None:
    circle = [
        Event("a", 1, 3, causation_id="b/0/2"),
        Event("a", 2, 4),
        Event("b", 1, 5, causation_id="a/0/2"),
        Event("b", 2, 6, causation_id="b/0/2"),
    ]
    assert in_causal_order(circle) == circle


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Events recorded in some true order, with clocks that say what they like."""
    events: list[Event] = []
    positions: dict[str, int] = {}
    for _ in range(draw(st.integers(0, 30))):
        service = draw(st.sampled_from(["admission", "billing", "placement"]))
        positions[service] = positions.get(service, 0) + draw(st.integers(1, 3))
        causes = ["", "req_1", *(event.event_id for event in events)]
        events.append(
            Event(
                service,
                positions[service],
                at=draw(st.integers(0, 20)),
                causation_id=draw(st.sampled_from(causes)),
            )
        )
    return events


@given(histories(), st.randoms(use_true_random=False))
def test_every_order_respects_causes_and_positions_and_is_one(
    events: list[Event], dice: random.Random
) -> None:
    told = in_causal_order(events)
    assert sorted(told, key=events.index) == events
    place = {event.event_id: index for index, event in enumerate(told)}
    for event in told:
        assert place.get(event.causation_id, -1) < place[event.event_id]
    for service in {event.service for event in told}:
        positions = [event.position for event in told if event.service == service]
        assert positions == sorted(positions)
    shuffled = list(events)
    dice.shuffle(shuffled)
    assert in_causal_order(shuffled) == told


@given(histories())
def test_one_event_told_twice_is_told_once(events: list[Event]) -> None:
    assert in_causal_order([*events, *(replace(event) for event in events)]) == in_causal_order(
        events
    )
