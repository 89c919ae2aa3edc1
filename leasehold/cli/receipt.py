"""Whether a bill is right, from its proof file and a public key alone. Pure; no network.

In order: the file is whole, the head is signed by a key that is trusted, every event is in the
tree of that head, the readable invoice is what its event says, no event of a lease is left out,
and every amount follows from the slices before it. The first thing wrong is named.
"""

from dataclasses import dataclass, field
from typing import Any

from billing.proof import heads, merkle
from billing.proof.bundle import FORMAT, ISSUED, invoice_document, subjects
from billing.proof.heads import AnnouncedKey, SignedHead
from chassis import canonical
from leasehold.cli.rerated import Lease, payable

Event = dict[str, Any]


class Wrong(Exception):
    """What is wrong with a proof, in a sentence."""


@dataclass(frozen=True)
class Proven:
    """What a proof proves; ``notes`` say what was taken as recorded."""

    invoice: Event
    head: SignedHead
    events: int
    notes: list[str] = field(default_factory=list)


def check(document: Any, public_key: str) -> Proven:
    """``public_key`` is the one to trust, as hexadecimal; Wrong names what differs."""
    try:
        return _check(document, public_key)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Wrong(f"the file is not a whole proof ({type(error).__name__}: {error})") from None


def claimed_key(document: Any) -> tuple[str, str, str]:
    """The tenant, the log and the first public key that a file names; nothing is checked."""
    try:
        first = AnnouncedKey.of(document["keys"][0])
        names = document["invoice"]["tenant_id"], document["head"]["log_id"]
        return str(names[0]), str(names[1]), first.public_key
    except (KeyError, TypeError, IndexError) as error:
        raise Wrong(f"the file is not a whole proof ({type(error).__name__}: {error})") from None


def _check(document: dict[str, Any], public_key: str) -> Proven:
    if document["format"] != FORMAT:
        raise Wrong(f"the format is {str(document['format'])[:60]!r}, not {FORMAT!r}")
    head = _signed_head(document, public_key)
    events = [_included(one, head) for one in document["events"]]
    issued = [event for _, event in events if event["meta"]["topic"] == ISSUED]
    if len(issued) != 1:
        raise Wrong(f"the file holds {len(issued)} invoices instead of one")
    invoice = issued[0]
    position = next(place for place, event in events if event is invoice)
    _same(invoice_document(invoice), document["invoice"], "invoice")
    notes = _recomputed(invoice, events, position)
    return Proven(document["invoice"], head, len(events), notes)


def _signed_head(document: dict[str, Any], public_key: str) -> SignedHead:
    head = SignedHead.of(document["head"])
    announced = [AnnouncedKey.of(key) for key in document["keys"]]
    if not announced:
        raise Wrong("the file names no key")
    keys = heads.trusted_keys(head.log_id, public_key, announced)
    if head.key_id not in keys:
        raise Wrong(
            f"the head is signed by key {head.key_id[:16]}, to which no announcement leads from "
            f"the trusted key {heads.key_id(bytes.fromhex(public_key))[:16]}"
        )
    if not heads.head_holds(head, keys[head.key_id]):
        raise Wrong(f"the signature of the head of {head.size} events does not hold")
    return head


def _included(entry: dict[str, Any], head: SignedHead) -> tuple[int, Event]:
    position, data = int(entry["position"]), str(entry["data"]).encode()
    path = [bytes.fromhex(hash_) for hash_ in entry["path"]]
    root = bytes.fromhex(head.root)
    if not merkle.is_included(merkle.leaf_hash(data), position - 1, head.size, path, root):
        raise Wrong(f"the event at position {position} is not in the tree that was signed")
    return position, canonical.loads(data)


def _same(proven: Any, shown: Any, where: str) -> None:
    """Compare type by type: 1, true and "1" are three different things."""
    if type(proven) is not type(shown):
        raise Wrong(f"{where} is {shown!r}, proven is {proven!r}")
    if isinstance(proven, dict):
        for name in sorted(proven.keys() | shown.keys()):
            if name not in proven or name not in shown:
                raise Wrong(f"{where}.{name} is {'missing' if name in proven else 'not proven'}")
            _same(proven[name], shown[name], f"{where}.{name}")
    elif isinstance(proven, list):
        if len(proven) != len(shown):
            raise Wrong(f"{where} has {len(shown)} items, proven are {len(proven)}")
        for number, (one, other) in enumerate(zip(proven, shown, strict=True), 1):
            _same(one, other, f"{where} {number}")
    elif proven != shown:
        raise Wrong(f"{where} is {shown!r}, proven is {proven!r}")


def _recomputed(invoice: Event, events: list[tuple[int, Event]], position: int) -> list[str]:
    """Every line from the slices of its lease, as they stood when the invoice was issued."""
    _, *meters = subjects(invoice)
    others = {event["meta"]["aggregate_id"] for _, event in events} - {*subjects(invoice)}
    if others:
        raise Wrong(f"events of {sorted(others)[0]} do not belong to this invoice")
    leases = {}
    for meter in meters:
        own = [one for one in events if one[1]["meta"]["aggregate_id"] == meter]
        leases[meter.removeprefix("mtr_")] = _lease(meter, own, position)
    notes = []
    for line in invoice["lines"]:
        if line.get("lease_id"):
            notes += _line(line, leases[line["lease_id"]], invoice["currency"])
    found = sum(line["amount_nanos"] + line.get("tax_nanos", 0) for line in invoice["lines"])
    if found != invoice["total_nanos"]:
        raise Wrong(f"the lines sum up to {found} nano-units, not {invoice['total_nanos']}")
    return notes


def _lease(meter: str, own: list[tuple[int, Event]], position: int) -> Lease:
    """The lease as it stood at a position; none of its events may be left out."""
    versions = [event["meta"]["version"] for _, event in own]
    if versions != list(range(1, len(own) + 1)) or not own:
        missing = next((n for n, v in enumerate(versions, 1) if n != v), len(own) + 1)
        raise Wrong(f"event {missing} of {meter} is left out")
    first, *others = (event for place, event in own if place < position)
    lease = Lease(first)
    for event in others:
        if fault := lease.take(event):
            raise Wrong(f"{meter}, event {event['meta']['version']}: {fault}")
    return lease


def _line(line: Event, lease: Lease, currency: str) -> list[str]:
    where, start = f"line {line['line']}", line.get("offset_us", 0)
    lasted = line["ended_at"] - line["activated_at"]
    if line["activated_at"] != lease.opened["activated_at"] + start:
        raise Wrong(f"{where} does not begin where its lease does")
    if line["gpu_count"] != lease.opened["gpu_count"]:
        raise Wrong(f"{where} has {line['gpu_count']} GPUs, its lease another number")
    if lasted * line["gpu_count"] != line["gpu_us"]:
        raise Wrong(f"{where}: {lasted} µs × {line['gpu_count']} GPUs are not {line['gpu_us']}")
    if start + lasted > lease.billed_us:
        raise Wrong(f"{where} ends after what was metered")
    exact, notes = lease.total(start + lasted) - lease.total(start), []
    if line.get("charge") == "MINIMUM":
        exact = lease.minimum_charged
    elif line.get("charge") == "CORRECTION" and not lasted:
        exact = line["exact_nanos"]
        notes = [f"{where} corrects an earlier invoice; its amount is taken as recorded"]
    if exact != line["exact_nanos"]:
        raise Wrong(f"{where}: seconds × price is {exact} nano-units, not {line['exact_nanos']}")
    if (rounded := payable(exact, currency)) != line["amount_nanos"]:
        raise Wrong(f"{where}: {exact} rounds to {rounded}, not {line['amount_nanos']}")
    return notes
