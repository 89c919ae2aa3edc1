"""Whatever happened: invoice, ledger and FOCUS file say the same, to the nano-unit."""

import csv
import io
from collections import Counter
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings

from billing.exports.conformance import check
from billing.exports.export import Selection, exported, selected
from billing.money import NANOS
from chassis import canonical
from chassis.errors import Refused
from tests.billing.test_properties import Ledger
from tests.billing.world import World


class Exports(Ledger):
    """The histories of the ledger's own test, looked at through the files."""

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        # While leases run and some stand on invoices, and again when all have ended.
        the_files_are_the_ledger(world)
        for lease_id in self.running():
            passed = world.now - world.cost(lease_id)["activated_at"]
            world.ended(passed, lease_id)
        invoice_everything(world)
        the_files_are_the_ledger(world)
        rows = selected([world.log.events], Selection())
        assert sum(row.billed_nanos for row in rows if not row.invoice_id) == 0


Exports.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestExports = Exports.TestCase


def invoice_everything(world: World) -> None:
    while True:
        try:
            world.invoice()
        except Refused as refused:
            if refused.code != "NOTHING_TO_BILL":
                raise
            return


def the_files_are_the_ledger(world: World) -> None:
    events = world.log.events
    facts = [canonical.loads(event.data) for event in events]
    rows = list(selected([events], Selection()))
    earned = -sum(
        posting["amount_nanos"]
        for fact in facts
        if fact["meta"]["topic"] != "billing.invoice.issued"
        for posting in fact.get("postings", [])
        if posting["account"].startswith("income:")
    )
    assert sum(row.amount_nanos for row in rows) == earned
    by_invoice: Counter[str] = Counter()
    for row in rows:
        if row.invoice_id:
            by_invoice[row.invoice_id] += row.billed_nanos
    issued = [fact for fact in facts if fact["meta"]["topic"] == "billing.invoice.issued"]
    for invoice in issued:
        assert by_invoice[invoice["meta"]["aggregate_id"]] == invoice["total_nanos"]
    with TemporaryDirectory() as folder:
        charges, details = written(world, Path(folder))
        assert check(charges, details=details) == []
        assert check(details) == []
        text = charges.read_text()
    billed = sum(Decimal(row["BilledCost"]) for row in csv.DictReader(io.StringIO(text)))
    assert billed * NANOS == sum(row.billed_nanos for row in rows)


def written(world: World, folder: Path) -> tuple[Path, Path]:
    paths = folder / "charges.csv", folder / "details.csv"
    for path, dataset in zip(paths, ("CostAndUsage", "InvoiceDetail"), strict=True):
        path.write_bytes(b"".join(exported([world.log.events], Selection(dataset))))
    return paths
