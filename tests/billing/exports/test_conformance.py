"""Each rule of the checker finds the file that breaks it; a good file breaks none."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from billing.exports.conformance import check
from billing.exports.export import Selection, exported
from billing.exports.findings import Rule
from billing.money import HOUR_US
from tests.billing.world import World, slices

Rows = list[dict[str, str]]
Fault = Callable[[Rows], None]


@pytest.fixture(scope="module")
def world() -> World:
    world = World()
    world.running(gpu_count=2)
    world.wait(4 * HOUR_US)
    world.report(*slices(3 * HOUR_US + 1_234_567))
    world.ended(3 * HOUR_US + 1_234_567)
    world.invoice()
    return world


def file(world: World, path: Path, dataset: str = "CostAndUsage", form: str = "csv") -> Path:
    path.write_bytes(b"".join(exported([world.log.events], Selection(dataset, form))))
    return path


def broken(path: Path, fault: Fault) -> Path:
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    fault(rows)
    with path.open("w", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def value(column: str, text: str) -> Fault:
    return lambda rows: rows[0].update({column: text})


def dropped(column: str) -> Fault:
    def drop(rows: Rows) -> None:
        for row in rows:
            del row[column]

    return drop


def added(column: str) -> Fault:
    def add(rows: Rows) -> None:
        for row in rows:
            row[column] = "x"

    return add


def own_first(rows: Rows) -> None:
    for row in rows:
        last = row.pop("Tags")
        row["Tags"] = last


def turned(rows: Rows) -> None:
    rows.reverse()


def moved(rows: Rows) -> None:
    rows[0].update(
        BillingPeriodStart="2027-01-01T00:00:00Z", BillingPeriodEnd="2027-02-01T00:00:00Z"
    )


def credit(rows: Rows) -> None:
    rows[0]["ChargeCategory"] = "Credit"


def unused(rows: Rows) -> None:
    rows[0].update(CommitmentDiscountId="com_1", CommitmentDiscountStatus="Unused")


FAULTS: list[tuple[Rule, Fault]] = [
    (Rule.COLUMN_MISSING, dropped("BilledCost")),
    (Rule.COLUMN_UNKNOWN, added("ProviderName")),
    (Rule.COLUMN_ORDER, own_first),
    (Rule.TYPE, value("BilledCost", "+1.0")),
    (Rule.TYPE, value("BilledCost", "1,000")),
    (Rule.TYPE, value("ChargePeriodStart", "2026-01-01 12:00:00")),
    (Rule.TYPE, value("Tags", "[1]")),
    (Rule.NULL, value("BillingAccountId", "")),
    (Rule.NULL, value("x_LedgerHash", "")),
    (Rule.ALLOWED_VALUE, value("ChargeCategory", "usage")),
    (Rule.ALLOWED_VALUE, value("ChargeClass", "Corrected")),
    (Rule.CURRENCY, value("BillingCurrency", "usd")),
    (Rule.PERIOD_REVERSED, value("ChargePeriodEnd", "2020-01-01T00:00:00Z")),
    (Rule.CHARGE_OUTSIDE_PERIOD, moved),
    (Rule.COST_IS_NOT_PRICE_TIMES_QUANTITY, value("ListCost", "4.980000100")),
    (Rule.COST_IS_NOT_PRICE_TIMES_QUANTITY, value("ContractedUnitPrice", "2.50")),
    (Rule.QUANTITY_WITHOUT_UNIT, value("PricingUnit", "")),
    (Rule.QUANTITY_WITHOUT_UNIT, value("ConsumedQuantity", "")),
    (Rule.USAGE_WITHOUT_QUANTITY, value("PricingQuantity", "")),
    (Rule.CREDIT_ABOVE_ZERO, credit),
    (Rule.DETAIL_WITHOUT_INVOICE, value("InvoiceDetailId", "")),
    (Rule.COMMITMENT_INCOMPLETE, value("CommitmentDiscountStatus", "Used")),
    (Rule.COMMITMENT_INCOMPLETE, unused),
    (Rule.NOT_SORTED, turned),
    (Rule.CURRENCIES_OF_ONE_INVOICE, value("BillingCurrency", "EUR")),
    (Rule.INVOICE_SUM, value("BilledCost", "4.979998618")),
    (Rule.INVOICE_SUM, lambda rows: rows.pop()),  # type: ignore[list-item, return-value]
    (Rule.DETAIL_UNKNOWN, value("InvoiceDetailId", "inv_acme_000001/7")),
]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("dataset", ["CostAndUsage", "InvoiceDetail", "BillingPeriod"])
def test_our_own_files_conform(world: World, tmp_path: Path, dataset: str, form: str) -> None:
    details = file(world, tmp_path / "details", "InvoiceDetail", form)
    compared = details if dataset == "CostAndUsage" else None
    assert check(file(world, tmp_path / "file", dataset, form), details=compared) == []


@pytest.mark.parametrize(
    ("rule", "fault"), FAULTS, ids=[f"{number}-{rule}" for number, (rule, _) in enumerate(FAULTS)]
)
def test_a_broken_file_is_rejected(world: World, tmp_path: Path, rule: Rule, fault: Fault) -> None:
    details = file(world, tmp_path / "details.csv", "InvoiceDetail")
    path = broken(file(world, tmp_path / "charges.csv"), fault)
    found = check(path, dataset="CostAndUsage", details=details)
    assert rule in {finding.rule for finding in found}


def test_a_repeated_column_a_short_row_and_a_repeated_line_are_found(
    world: World, tmp_path: Path
) -> None:
    path = file(world, tmp_path / "periods.csv", "BillingPeriod")
    header, row = path.read_text().splitlines()
    path.write_text(f"{header},BillingPeriodEnd\n{row},x\n")
    assert {finding.rule for finding in check(path)} == {Rule.COLUMN_REPEATED}
    path.write_text(f"{header}\n{row},x\n")
    assert {finding.rule for finding in check(path)} == {Rule.ROW_LENGTH}
    path = file(world, tmp_path / "details.csv", "InvoiceDetail")
    header, row = path.read_text().splitlines()
    path.write_text(f"{header}\n{row}\n{row}\n")
    assert {finding.rule for finding in check(path)} == {Rule.DETAIL_REPEATED}


def test_every_rule_has_a_file_that_breaks_it() -> None:
    shown = {rule for rule, _ in FAULTS}
    assert shown | {Rule.COLUMN_REPEATED, Rule.ROW_LENGTH, Rule.DETAIL_REPEATED} == set(Rule)


def test_a_number_of_another_type_in_parquet_is_found(world: World, tmp_path: Path) -> None:
    path = file(world, tmp_path / "charges.parquet", form="parquet")
    table = pq.read_table(path)
    index = table.schema.get_field_index("BilledCost")
    pq.write_table(table.set_column(index, "BilledCost", table["BilledCost"].cast("double")), path)
    assert {finding.rule for finding in check(path)} == {Rule.TYPE}
