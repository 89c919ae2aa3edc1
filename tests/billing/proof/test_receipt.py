"""A proof file holds with nothing but the public key, and with any digit changed it does not."""

import copy
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.proof.bundle import ISSUED
from chassis import canonical
from leasehold.cli import receipt
from leasehold.cli.receipt import Wrong
from tests.billing.proof.files import LOG_ID, Key, billed, proof_file, tree_of

KEY = Key()
ROWS = billed().log.events
FILE = proof_file(ROWS, KEY)


def test_a_true_bill_holds() -> None:
    proven = receipt.check(FILE, KEY.public)
    assert proven.invoice == FILE["invoice"]
    assert proven.events == len(FILE["events"])
    assert proven.notes == []


def test_the_readable_invoice_says_money_exactly() -> None:
    (line, _) = FILE["invoice"]["lines"]
    assert Fraction(line["amount"]) == Fraction(int(line["amount_nanos"]), 10**9)
    assert FILE["invoice"]["total"] == "14.94"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every digit in a document: where it stands, and its index if it stands in a text."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in items:
        if isinstance(item, dict | list):
            yield from places(item, (*path, name))
        elif isinstance(item, int | str):
            digits = [at for at, char in enumerate(str(item)) if char.isdigit()]
            yield from ((*path, name, at) for at in digits)


def changed(document: dict[str, Any], place: tuple[Any, ...], digit: str) -> dict[str, Any]:
    """Another digit there; the same document if it was that digit."""
    found = copy.deepcopy(document)
    *way, name, at = place
    holder = found
    for step in way:
        holder = holder[step]
    text = str(holder[name])
    text = text[:at] + digit + text[at + 1 :]
    holder[name] = int(text) if isinstance(holder[name], int) else text
    return found


@pytest.mark.parametrize("place", [*places(FILE["invoice"], ("invoice",))], ids=str)
def test_every_digit_of_the_invoice_counts(place: tuple[Any, ...]) -> None:
    *_, name, at = place
    for digit in "1", "2":
        other = changed(FILE, place, digit)
        if other != FILE:
            with pytest.raises(Wrong) as wrong:
                receipt.check(other, KEY.public)
            assert str(name) in str(wrong.value), at


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([*places(FILE)]), st.sampled_from("0123456789"))
def test_no_digit_of_the_file_can_be_changed(place: tuple[Any, ...], digit: str) -> None:
    other = changed(FILE, place, digit)
    # The first key is no statement: what counts is the key that the reader trusts.
    if other != FILE and place[0] != "keys":
        with pytest.raises(Wrong):
            receipt.check(other, KEY.public)


def test_swapped_proofs_are_found() -> None:
    other = copy.deepcopy(FILE)
    first, second = other["events"][1], other["events"][2]
    first["path"], second["path"] = second["path"], first["path"]
    with pytest.raises(Wrong, match="is not in the tree that was signed"):
        receipt.check(other, KEY.public)


def test_swapped_events_are_found() -> None:
    other = copy.deepcopy(FILE)
    first, second = other["events"][1], other["events"][2]
    first["data"], second["data"] = second["data"], first["data"]
    with pytest.raises(Wrong, match="is not in the tree that was signed"):
        receipt.check(other, KEY.public)


def test_the_head_of_another_size_is_found() -> None:
    shorter = len(ROWS) - 1
    other = {**FILE, "head": KEY.head(LOG_ID, shorter, tree_of(ROWS).root(shorter))}
    with pytest.raises(Wrong, match="is not in the tree that was signed"):
        receipt.check(other, KEY.public)
    lying = {**FILE, "head": {**FILE["head"], "size": shorter}}
    with pytest.raises(Wrong, match=f"the signature of the head of {shorter} events"):
        receipt.check(lying, KEY.public)


def test_a_key_that_is_not_trusted_is_found() -> None:
    with pytest.raises(Wrong, match="to which no announcement leads from the trusted key"):
        receipt.check(FILE, Key(2).public)
    forged = proof_file(ROWS, Key(2))
    with pytest.raises(Wrong, match="to which no announcement leads from the trusted key"):
        receipt.check(forged, KEY.public)
    posing = copy.deepcopy(forged)
    posing["head"]["key_id"] = KEY.id
    with pytest.raises(Wrong, match="the signature of the head"):
        receipt.check(posing, KEY.public)


def test_a_new_key_counts_if_the_old_one_announced_it() -> None:
    second, third = Key(2), Key(3)
    chain = [KEY.first(), KEY.announce(LOG_ID, second), second.announce(LOG_ID, third)]
    assert receipt.check(proof_file(ROWS, third, keys=chain), KEY.public)
    assert receipt.check(proof_file(ROWS, third, keys=chain), second.public)
    with pytest.raises(Wrong, match="no announcement leads"):
        receipt.check(proof_file(ROWS, third, keys=[chain[0], chain[2]]), KEY.public)
    forged = [KEY.first(), {**third.announce(LOG_ID, second), "previous_key_id": KEY.id}]
    with pytest.raises(Wrong, match="no announcement leads"):
        receipt.check(proof_file(ROWS, second, keys=forged), KEY.public)


def test_an_event_that_is_left_out_is_named() -> None:
    own = [one for one in FILE["events"] if '"mtr_lse_1"' in one["data"]]
    for number, left_out in enumerate(own[:-1], 1):
        kept = [one for one in FILE["events"] if one != left_out]
        with pytest.raises(Wrong, match=f"event {number} of mtr_lse_1 is left out"):
            receipt.check({**FILE, "events": kept}, KEY.public)
    with pytest.raises(Wrong, match="the file holds 0 invoices"):
        receipt.check({**FILE, "events": FILE["events"][1:]}, KEY.public)
    with pytest.raises(Wrong, match="the file holds 2 invoices"):
        receipt.check({**FILE, "events": [FILE["events"][0], *FILE["events"]]}, KEY.public)


# What the platform itself may have recorded wrongly: signed, in the tree, and not true.
@pytest.mark.parametrize(
    ("topic", "name", "said"),
    [
        (ISSUED, "total_nanos", "the lines sum up to"),
        ("billing.meter.slice_recorded", "amount_nanos", "seconds × price is"),
        ("billing.meter.slice_recorded", "from_us", "a slice begins at"),
        ("billing.meter.closed", "amount_nanos", "the sum of the slices is"),
        ("billing.meter.closed", "lease_us", "the billed time is"),
        ("billing.meter.opened", "price_nanos", "seconds × price is"),
    ],
)
def test_a_bill_that_was_computed_wrongly_is_found(topic: str, name: str, said: str) -> None:
    with pytest.raises(Wrong, match=said):
        receipt.check(proof_file(miscounted(topic, name), KEY), KEY.public)


@pytest.mark.parametrize("name", ["exact_nanos", "amount_nanos", "gpu_us", "gpu_count", "ended_at"])
def test_a_line_that_was_computed_wrongly_is_found(name: str) -> None:
    def off_by_one(event: dict[str, Any]) -> None:
        event["lines"][0][name] += 1

    with pytest.raises(Wrong, match="line 1"):
        receipt.check(proof_file(rewritten(ISSUED, off_by_one), KEY), KEY.public)


@pytest.mark.parametrize("name", ["format", "invoice", "head", "keys", "events"])
@pytest.mark.parametrize("value", [None, 7, "text", [], {}])
def test_what_is_no_proof_is_refused_in_a_sentence(name: str, value: Any) -> None:
    with pytest.raises(Wrong):
        receipt.check({**FILE, name: value}, KEY.public)
    with pytest.raises(Wrong):
        receipt.check({key: item for key, item in FILE.items() if key != name}, KEY.public)


def test_a_number_is_not_its_text() -> None:
    other = json.loads(json.dumps(FILE))
    other["invoice"]["number"] = True
    with pytest.raises(Wrong, match="invoice.number is True, proven is 1"):
        receipt.check(other, KEY.public)
    other["invoice"]["number"] = 1
    other["invoice"]["note"] = "paid"
    with pytest.raises(Wrong, match="invoice.note is not proven"):
        receipt.check(other, KEY.public)


def miscounted(topic: str, name: str) -> list[Any]:
    def off_by_one(event: dict[str, Any]) -> None:
        event[name] += 1

    return rewritten(topic, off_by_one)


def rewritten(topic: str, change: Any) -> list[Any]:
    """The log with the first event of a topic changed, as if it had been recorded so."""
    rows = list(ROWS)
    at = next(number for number, row in enumerate(rows) if row.topic == topic)
    event = canonical.loads(rows[at].data)
    change(event)
    rows[at] = rows[at]._replace(data=canonical.dumps(event))
    return rows
