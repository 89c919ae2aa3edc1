"""Billing's settings and metrics: what an operator sets, and what an operator sees."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from billing.__main__ import BillingSettings
from billing.metrics import LedgerMetrics
from chassis.settings import SettingsError, load
from tests.billing.world import SECOND, World, slices


def test_every_mistake_in_the_settings_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as wrong:
        load(BillingSettings, environment(tmp_path, CURRENCY="XAU", PRICES="H100=0,B300=1.5"))
    assert [line.split(":")[0] for line in wrong.value.errors] == [
        "LEASEHOLD_CURRENCY",
        "LEASEHOLD_PRICES",
    ]


def test_a_float_is_no_price(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        load(BillingSettings, environment(tmp_path, PRICES="H100=1e3"))


def test_metrics_show_the_ledger_and_that_nothing_is_lost() -> None:
    world = World()
    world.running()
    world.wait(40 * SECOND)
    world.tick()
    world.report(*slices(10 * SECOND))
    registry = CollectorRegistry()
    registry.register(LedgerMetrics(world.billing))
    shown = dict(
        line.split() for line in generate_latest(registry).decode().splitlines() if line[0] != "#"
    )
    unconfirmed = world.cost()["metered_us"] - 10 * SECOND
    assert float(shown["billing_unconfirmed_us"]) == unconfirmed
    assert float(shown["billing_postings_total"]) == world.billing.ledger.posting_count
    assert float(shown["billing_unaccounted_us"]) == 0
    assert float(shown["billing_imbalance_nanos"]) == 0


def environment(folder: Path, **chosen: str) -> dict[str, str]:
    values = {
        "POSTGRES_URL": "postgresql:///x",
        "NATS_URL": "nats://x",
        "IDENTITY_DIR": str(folder),
        "GRPC_PORT": "0",
        "METRICS_PORT": "0",
    }
    return {f"LEASEHOLD_{name}": value for name, value in (values | chosen).items()}
