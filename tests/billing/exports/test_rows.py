"""Charge rows and their files: exact, sorted, the same each time, and flat in memory."""

import io
import tracemalloc
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bench.exports
from bench.exports import pages
from billing.exports import export
from billing.exports.calendar import Calendar, month
from billing.exports.columns import DATASETS
from billing.exports.export import FORMATS, Selection, exported, selected
from billing.exports.rows import ChargeRow, spread
from billing.money import HOUR_US, NANOS, Rate
from tests.billing.world import NOON, World, slices

DAY_US = 24 * HOUR_US


def used(*ends_us: int, rate: Rate | None = None) -> World:
    """One lease of three GPUs, measured in slices that end at these times."""
    world = World(rate=rate) if rate else World()
    world.running(gpu_count=3)
    world.wait(ends_us[-1])
    world.report(*slices(*ends_us))
    world.ended(ends_us[-1])
    return world


def rows_of(world: World, **chosen: int) -> list[ChargeRow]:
    return list(selected([world.log.events], Selection(**chosen)))  # type: ignore[arg-type]


def test_a_lease_has_a_row_for_each_hour_of_utc() -> None:
    world = used(2 * HOUR_US)
    world.invoice()
    rows = rows_of(world)
    # It began a few microseconds after noon, so it ends in the third hour.
    assert [row.start_us for row in rows] == [NOON, NOON + HOUR_US, NOON + 2 * HOUR_US]
    assert sum(row.amount_nanos for row in rows) == 14_940_000_000
    assert sum(row.gpu_us for row in rows) == 6 * HOUR_US
    assert {row.state for row in rows} == {"confirmed"}


@settings(max_examples=100, deadline=None)
@given(
    st.sets(st.integers(1, 5 * HOUR_US - 1), max_size=12),
    st.sampled_from([Rate(2_490_000_000, HOUR_US), Rate(1, 3), Rate(10**9 + 7, 10**9 + 9)]),
)
def test_rows_do_not_depend_on_how_a_lease_was_sliced(cuts: set[int], rate: Rate) -> None:
    def seen(world: World) -> list[ChargeRow]:
        return [row._replace(position=0, hash="") for row in rows_of(world)]

    assert seen(used(*sorted(cuts), 5 * HOUR_US, rate=rate)) == seen(used(5 * HOUR_US, rate=rate))


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1), st.integers(-(10**12), 10**12))
def test_a_spread_sums_to_its_total_and_moves_no_row_by_more_than_its_part(
    weights: list[int], total: int
) -> None:
    whole = sum(weights)
    if not whole:
        return
    shares = spread(total, weights)
    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share * whole - weight * total) <= abs(whole)


def test_what_an_invoice_was_rounded_by_is_spread_over_its_rows() -> None:
    world = used(3 * HOUR_US + 1_234_567)
    invoice = world.invoice()
    rows = rows_of(world)
    assert sum(row.billed_nanos for row in rows) == invoice["total_nanos"]
    assert sum(row.amount_nanos for row in rows) != invoice["total_nanos"]
    assert all(abs(row.billed_nanos - row.amount_nanos) < NANOS // 100 for row in rows)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_an_export_again_is_the_same_bytes(form: str, dataset: str) -> None:
    world = used(HOUR_US, 30 * HOUR_US)
    world.invoice()
    chosen = Selection(dataset, form)
    once = b"".join(exported([world.log.events], chosen))
    # In other pages, and after something that is none of its business.
    world.top_up(NANOS)
    singly = ([event] for event in world.log.events)
    assert b"".join(exported(singly, chosen)) == once


def test_a_range_has_the_charges_that_begin_in_it_and_ranges_add_up() -> None:
    world = used(30 * HOUR_US)
    world.invoice()
    middle = NOON + 10 * HOUR_US
    first, second = rows_of(world, until_us=middle), rows_of(world, from_us=middle)
    assert len(first) == 10
    assert first + second == rows_of(world)


def test_rows_are_sorted_by_tenant_and_time() -> None:
    rows = list(selected(pages(1_000), Selection()))
    order = [(row.tenant_id, row.start_us, row.lease_id) for row in rows]
    assert order == sorted(order)
    assert len(rows) == 1_000


def test_parquet_says_what_csv_says_and_duckdb_reads_it(tmp_path: Path) -> None:
    world = used(30 * HOUR_US + 1)
    world.invoice()
    for form in FORMATS:
        data = b"".join(exported([world.log.events], Selection(form=form)))
        (tmp_path / f"charges.{form}").write_bytes(data)
    table = pq.read_table(io.BytesIO((tmp_path / "charges.parquet").read_bytes()))
    assert table.schema.field("BilledCost").type == pa.decimal128(38, 9)
    (total,) = duckdb.sql(
        f"select sum(BilledCost) from read_parquet('{tmp_path}/charges.parquet')"
    ).fetchall()[0]
    assert total * NANOS == sum(row.billed_nanos for row in rows_of(world))
    differing = duckdb.sql(
        f"select count(*) from read_parquet('{tmp_path}/charges.parquet') p"
        f" positional join read_csv('{tmp_path}/charges.csv', all_varchar=true) c"
        " where p.BilledCost <> c.BilledCost::decimal(38, 9) or p.x_LedgerHash <> c.x_LedgerHash"
    ).fetchall()
    assert differing == [(0,)]


@pytest.mark.parametrize("form", FORMATS)
def test_memory_does_not_grow_with_the_rows(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((export, "BATCH"), (export, "SPOOLED"), (bench.exports, "PAGE")):
        monkeypatch.setattr(module, name, 500)
    few, many = peak(form, 3_000), peak(form, 12_000)
    assert many < few * 1.2


def peak(form: str, rows: int) -> int:
    tracemalloc.start()
    try:
        for _ in exported(pages(rows), Selection(form=form)):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_month_of_utc_is_the_period_until_the_log_names_one() -> None:
    calendar = Calendar()
    assert calendar.around(NOON) == month(NOON)
    calendar.opened("per_1", NOON - DAY_US, NOON + HOUR_US // 2, NOON)
    assert calendar.around(NOON) == (NOON - DAY_US, NOON + HOUR_US // 2)
    assert calendar.around(NOON + HOUR_US) == (NOON + HOUR_US // 2, month(NOON)[1])
    assert list(calendar.pieces(NOON, NOON + HOUR_US)) == [
        (NOON, NOON + HOUR_US // 2),
        (NOON + HOUR_US // 2, NOON + HOUR_US),
    ]
