"""The events that prove an invoice, read from the log in pages.

A page ends after so many events or bytes, so that the proof of a long lease is many small
messages. Nothing after the head's size is read: the head says nothing about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from chassis.events import Recorded
from chassis.store import Store

EVENTS_MAX = 400
BYTES_MAX = 1_000_000


@dataclass(slots=True)
class Page:
    rows: list[Recorded] = field(default_factory=list)
    # The next page's token; "" if this one is the last.
    following: str = ""


def page(store: Store, subjects: Sequence[str], start: tuple[int, int], size: int) -> Page:
    """From a subject and a position on; ``start`` is what the token of the page before says."""
    number, after = start
    found, room = Page(), BYTES_MAX
    while number < len(subjects):
        limit = EVENTS_MAX - len(found.rows)
        rows = store.read(after, limit, until=size, aggregate_id=subjects[number])
        for row in rows:
            if found.rows and room < len(row.data):
                found.following = f"{number}.{after}"
                return found
            found.rows.append(row)
            room -= len(row.data)
            after = row.position
        if len(rows) < limit:
            number, after = number + 1, 0
        if len(found.rows) == EVENTS_MAX and number < len(subjects):
            found.following = f"{number}.{after}"
            return found
    return found
