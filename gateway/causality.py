"""The order in which events of several services are told: no effect before its cause. Pure.

Two kinds of order are facts: positions within one service's log, and ``causation_id``. Where
they leave a choice, the time of recording decides, then the service's name, so that the same
events are always told in the same order.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeVar


class Told(Protocol):
    @property
    def service(self) -> str: ...
    @property
    def position(self) -> int: ...
    @property
    def event_id(self) -> str: ...
    @property
    def causation_id(self) -> str: ...
    @property
    def at(self) -> int: ...


E = TypeVar("E", bound=Told)


def in_causal_order(events: Iterable[E]) -> list[E]:
    """Every event once. Causes outside of ``events`` do not bind.

    Should causes form a circle, which only forged ids could, the positions still hold and the
    earliest event of the circle comes first.
    """
    known = {event.event_id: event for event in events}
    waiting_for = _requirements(known)
    followers: dict[str, list[str]] = {event_id: [] for event_id in known}
    for event_id, required in waiting_for.items():
        for cause in required:
            followers[cause].append(event_id)
    ready = [_rank(known[event_id]) for event_id, required in waiting_for.items() if not required]
    heapify(ready)
    told: list[E] = []
    while waiting_for:
        event_id = heappop(ready)[-1] if ready else _break_circle(known, waiting_for)
        told.append(known[event_id])
        del waiting_for[event_id]
        for follower in followers[event_id]:
            if follower in waiting_for:
                waiting_for[follower].discard(event_id)
                if not waiting_for[follower]:
                    heappush(ready, _rank(known[follower]))
    return told


def _requirements(known: dict[str, E]) -> dict[str, set[str]]:
    """For each event: its cause, and its predecessor in the same log."""
    required: dict[str, set[str]] = {}
    last: dict[str, str] = {}
    for event in sorted(known.values(), key=lambda e: (e.service, e.position)):
        before = {event.causation_id, last.get(event.service, "")}
        required[event.event_id] = (before & known.keys()) - {event.event_id}
        last[event.service] = event.event_id
    return required


def _rank(event: E) -> tuple[int, str, int, str]:
    return event.at, event.service, event.position, event.event_id


def _break_circle(known: dict[str, E], waiting_for: dict[str, set[str]]) -> str:
    first: dict[str, E] = {}
    for event_id in waiting_for:
        event = known[event_id]
        if event.service not in first or event.position < first[event.service].position:
            first[event.service] = event
    return min(_rank(event) for event in first.values())[-1]
