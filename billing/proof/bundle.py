"""What a proof of an invoice contains, and the invoice as people read it. Pure.

The readable invoice is made from the stored event alone, so there is no field on it that the
proof does not cover. Money stands twice, as nano-units and as a decimal, both as text: most
readers of JSON would round a number.
"""

from collections.abc import Mapping
from typing import Any

from billing.domain.meter import meter_id

FORMAT = "leasehold invoice proof v1"
ISSUED = "billing.invoice.issued"

# Bookkeeping of ours; it follows from the lines.
_LEFT_OUT = {"meta", "postings"}


def subjects(issued: Mapping[str, Any]) -> list[str]:
    """Whose events prove an invoice: the invoice itself, then the meter of each lease on it."""
    leases = dict.fromkeys(line["lease_id"] for line in issued["lines"] if line.get("lease_id"))
    return [issued["meta"]["aggregate_id"], *(meter_id(lease_id) for lease_id in leases)]


def invoice_document(issued: Mapping[str, Any]) -> dict[str, Any]:
    """The invoice that an event says was issued."""
    meta = issued["meta"]
    facts = {name: value for name, value in issued.items() if name not in _LEFT_OUT}
    named = {"invoice_id": meta["aggregate_id"], "tenant_id": meta["tenant_id"]}
    return {**named, "issued_at": meta["at"], **shown(facts)}


def shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in facts.items():
        if "_nanos" in name and type(value) is int:
            found[name] = str(value)
            found[name.replace("_nanos", "")] = decimal(value)
        elif isinstance(value, list):
            found[name] = [shown(item) if isinstance(item, dict) else item for item in value]
        else:
            found[name] = shown(value) if isinstance(value, dict) else value
    return found


def decimal(nanos: int) -> str:
    """``2490000000`` as ``2.49``: exact, with at least two places."""
    whole, fraction = divmod(abs(nanos), 10**9)
    places = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nanos < 0 else ''}{whole}.{places}"
