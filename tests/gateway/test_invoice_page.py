"""The printable invoice: whole, escaped, and without anything from elsewhere."""

import re
from html.parser import HTMLParser

from gateway.http.invoice_page import page
from gateway.http.shapes import json_of
from leasehold.billing.v1 import billing_service_pb2 as pb
from leasehold.billing.v1 import ledger_events_pb2 as events

NASTY = "<script>alert('x')</script>\"&"


def test_everything_that_somebody_typed_is_escaped() -> None:
    text = page(shown(project=NASTY, reason=NASTY))
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot;&amp;") == 2


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page(shown())
    assert not re.search(r"(src|href)=|url\(|@import", text)
    assert "default-src 'none'" in text
    assert "@media print" in text


def test_it_is_well_formed_and_says_the_amounts() -> None:
    text = page(shown())
    depth: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag != "meta":
                depth.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert depth.pop() == tag

    Tags().feed(text)
    assert depth == []
    for words in ("Total USD", "2.49", "-1.00", "2 × H100", "0.5000"):
        assert words in text


def shown(*, project: str = "research", reason: str = "as agreed") -> dict[str, object]:
    line = events.InvoiceLine(
        line=1,
        lease_id="lse_1",
        project=project,
        gpu_model="H100",
        gpu_count=2,
        activated_at=1_767_268_800_000_000,
        ended_at=1_767_269_700_000_000,
        gpu_us=1_800_000_000,
        amount_nanos=2_490_000_000,
        charge="CORRECTION",
    )
    note = pb.CreditNote(credit_note_id="crn_1", line=1, amount_nanos=10**9, reason=reason)
    invoice = pb.Invoice(
        invoice_id="inv_1",
        number=1,
        currency="USD",
        lines=[line],
        total_nanos=2_490_000_000,
        credits=[note],
    )
    return json_of(invoice)
