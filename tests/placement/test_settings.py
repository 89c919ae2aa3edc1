"""Placement's own settings: what is refused at the start."""

from pathlib import Path

import pytest

from chassis.settings import SettingsError, load
from placement.__main__ import PlacementSettings


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ENVIRONMENT": "production"}, "LEASEHOLD_ALLOW_SIMULATED is unsafe in production"),
        ({"JOIN_PORT": "7403"}, "LEASEHOLD_JOIN_PORT must differ from the other ports"),
        ({"NODE_CA_DIR": "nowhere"}, "LEASEHOLD_NODE_CA_DIR: nowhere holds no authority"),
        ({"HOLD_SECONDS": "0"}, "LEASEHOLD_HOLD_SECONDS: 0 is less than 1"),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, changed: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(PlacementSettings, environ(tmp_path, changed))
    assert any(found.startswith(complaint) for found in error.value.errors)


def test_the_defaults_are_good_for_development(tmp_path: Path) -> None:
    loaded = load(PlacementSettings, environ(tmp_path, {}))
    assert (loaded.hold_seconds, loaded.lease_term_seconds) == (60, 600)


def test_production_runs_without_simulated_gpus(tmp_path: Path) -> None:
    safe = {"ENVIRONMENT": "production", "ALLOW_SIMULATED": "false"}
    with pytest.raises(SettingsError) as error:
        load(PlacementSettings, environ(tmp_path, safe))
    assert not any("SIMULATED" in found for found in error.value.errors)


def environ(folder: Path, changed: dict[str, str]) -> dict[str, str]:
    (folder / "key.pem").touch()
    values = {
        "POSTGRES_URL": "postgresql://127.0.0.1/x",
        "NATS_URL": "nats://127.0.0.1",
        "IDENTITY_DIR": str(folder),
        "NODE_CA_DIR": str(folder),
        "GRPC_PORT": "7403",
        "METRICS_PORT": "7423",
        "JOIN_PORT": "7407",
    }
    return {f"LEASEHOLD_{name}": value for name, value in {**values, **changed}.items()}
