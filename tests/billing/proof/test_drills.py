"""Tamper drills: whoever rewrites the log so that its chain is whole again is still found out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from billing.application import Billing
from billing.proof import anchor
from billing.proof.heads import SignedHead
from chassis import canonical, schema
from chassis.events import Recorded
from chassis.store import Group, Head, Store
from leasehold.cli import anchors, audit, chains
from tests.billing.proof.files import Key, tree_of
from tests.billing.world import World

KEY, THIEF = Key(1), Key(9)
Rows = list[Recorded]


class Ledger:
    """A log whose heads were signed and anchored as it grew."""

    def __init__(self, key: Key = KEY) -> None:
        self.world = World()
        self.anchored: list[tuple[SignedHead, str]] = []
        self.key = key
        self.world.tell(lambda at: self.billing.open_tree(key.public, at=at))

    @property
    def billing(self) -> Billing:
        return self.world.billing

    @property
    def rows(self) -> Rows:
        return self.world.log.events

    def grow(self) -> "Ledger":
        for number in range(5):
            reference = f"payment {len(self.rows)} {number}"
            self.world.top_up(10**9 + number, reference=reference)
        return self

    def sign(self) -> "Ledger":
        size = len(self.rows)
        facts = self.key.head(self.billing.signed.log_id, size, tree_of(self.rows).root(size))
        self.world.tell(
            lambda at: self.billing.record_head(
                size, facts["root"], facts["signed_at"], facts["signature"], at=at
            )
        )
        self.anchored.append((SignedHead.of(facts), self.key.public))
        return self

    def rotate(self, new: Key) -> "Ledger":
        announced = self.key.announce(self.billing.signed.log_id, new)
        self.world.tell(
            lambda at: self.billing.rotate_key(new.public, announced["signature"], at=at)
        )
        self.key = new
        return self


def signed_twice() -> Ledger:
    return Ledger().grow().sign().grow().sign().grow()


def test_an_untouched_ledger_agrees_with_its_anchor() -> None:
    ledger = signed_twice()
    assert verdict(ledger.rows, ledger) == ""
    rotated = signed_twice().rotate(Key(2)).grow().sign()
    assert verdict(rotated.rows, rotated) == ""


@pytest.mark.parametrize("at", [0, 3, 7, 11])
def test_a_chain_that_was_rewritten_from_the_middle_is_found(at: int) -> None:
    ledger = signed_twice()
    forged = rewritten(ledger.rows, at)
    assert chain_is_whole(forged)
    first = next(head.size for head, _ in ledger.anchored if head.size > at)
    assert verdict(forged, ledger) == (
        f"position {first} or one before it: the log is not the one whose head of {first} events"
        " was signed and anchored"
    )
    assert f"position {first} or one before it" in verdict(forged, ledger, anchored=[])


def test_a_log_that_was_cut_off_is_found() -> None:
    ledger = signed_twice()
    size = ledger.anchored[-1][0].size
    assert verdict(ledger.rows[: size - 1], ledger) == (
        f"the log has {size - 1} events, and a head of {size} was signed and anchored"
    )


def test_a_replaced_signing_key_is_found_by_the_anchored_heads() -> None:
    ledger = signed_twice()
    forged = Ledger(THIEF).grow().sign().grow().sign().grow()
    assert verdict(forged.rows, forged) == "", "by itself it is a good ledger"
    assert verdict(forged.rows, ledger) == (
        f"the anchored head of {ledger.anchored[0][0].size} events is signed by key {KEY.id[:16]},"
        " which the log never announced: the signing key was replaced"
    )


def test_a_key_that_the_old_one_did_not_announce_is_found() -> None:
    ledger = signed_twice().rotate(Key(2))

    def replace(event: dict[str, Any]) -> None:
        event.update(THIEF.announce(ledger.billing.signed.log_id, Key(3)))
        event["previous_key_id"] = KEY.id

    position = len(ledger.rows)
    forged = rewritten(ledger.rows, position - 1, replace)
    said = f"position {position}: a key that the one before it did not announce"
    assert verdict(forged, ledger) == said


def test_a_head_in_the_log_that_nobody_signed_is_found() -> None:
    ledger = signed_twice()
    at = next(n for n, row in enumerate(ledger.rows) if row.topic.endswith("head_signed"))
    forged = rewritten(ledger.rows, at, lambda event: event.update(signed_at=7))
    assert verdict(forged, ledger) == f"position {at + 1}: a head that no announced key signed"


def test_an_anchor_that_was_changed_or_thinned_out_is_found() -> None:
    ledger = signed_twice()
    (first, _), last = ledger.anchored
    said = f"the anchored head of {first.size} events is not signed by its key"
    assert verdict(ledger.rows, ledger, anchored=[(first, THIEF.public), last]) == said
    said = f"the head of {first.size} events was signed and is not in the anchor file"
    assert verdict(ledger.rows, ledger, anchored=[last]) == said


def test_the_platforms_own_check_names_it(database_url: str, tmp_path: Path) -> None:
    ledger = signed_twice()
    file = tmp_path / "anchor.jsonl"
    file.write_bytes(b"".join(anchor.line(*pair) for pair in ledger.anchored))
    store = stored(ledger.rows, database_url)
    assert audit._unsigned(database_url, file) == ("", "")
    forged = rewritten(ledger.rows, 3)
    with psycopg.connect(database_url, options="-c search_path=billing") as connection:
        for row in forged:
            connection.execute(
                "update events set data = %s, hash = %s where position = %s",
                (row.data, row.hash, row.position),
            )
        connection.execute("update heads set hash = %s", (forged[-1].hash,))
    assert chains.read(store, 1 << 40)[1] == "", "the chain alone does not show it"
    wrong, _ = audit._unsigned(database_url, file)
    assert wrong.startswith(f"position {ledger.anchored[0][0].size} or one before it")
    file.write_bytes(file.read_bytes() + b"{}\n")
    assert audit._unsigned(database_url, file)[0] == "line 3 of the anchor file is no signed head"
    store.close()


def verdict(
    rows: Rows, ledger: Ledger, anchored: Sequence[tuple[SignedHead, str]] | None = None
) -> str:
    logged = [
        SignedHead.of(canonical.loads(row.data))
        for row in rows
        if row.topic == "billing.log_tree.head_signed"
    ]
    return anchors.checked(rows, logged, ledger.anchored if anchored is None else [*anchored])


def pretend(event: dict[str, Any]) -> None:
    event["meta"]["actor"] = "nobody"


def rewritten(
    rows: Rows, at: int, change: Callable[[dict[str, Any]], None] = pretend
) -> list[Recorded]:
    """One event changed, and every hash after it made right again."""
    found, hash_ = [], canonical.GENESIS
    for number, row in enumerate(rows):
        data = row.data
        if number == at:
            event = canonical.loads(data)
            change(event)
            data = canonical.dumps(event)
        hash_ = canonical.chained(hash_, data)
        found.append(row._replace(data=data, hash=hash_))
    return found


def chain_is_whole(rows: Rows) -> bool:
    hash_ = canonical.GENESIS
    for row in rows:
        hash_ = canonical.chained(hash_, row.data)
        if row.hash != hash_:
            return False
    return True


def stored(rows: Rows, database_url: str) -> Store:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(schema.ddl("billing", connection.info.user).encode())
        connection.execute(
            "insert into billing.heads values (0, 1, 'test', now(), 0, %s)", (canonical.GENESIS,)
        )
    store = Store(database_url, "billing")
    after = Head(1, rows[-1].position, rows[-1].hash)
    store.commit(Head(1), Group(events=list(rows)), after)
    return store
