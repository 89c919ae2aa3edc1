"""Settings of the process: the starter quota, and the peers it cannot do without."""

from pathlib import Path

import pytest

from admission.__main__ import AdmissionSettings
from chassis.settings import SettingsError, load

PEERS = "billing=127.0.0.1:7406,gateway=127.0.0.1:7401,placement=127.0.0.1:7403"


def test_the_starter_quota_is_a_number_of_gpus_per_model(tmp_path: Path) -> None:
    known = environment(tmp_path)
    assert load(AdmissionSettings, known).starter_quota == {"H100": 8}
    more = {**known, "LEASEHOLD_STARTER_QUOTA": "H100=16,L4=0"}
    assert load(AdmissionSettings, more).starter_quota == {"H100": 16, "L4": 0}


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    wrong = {"LEASEHOLD_STARTER_QUOTA": "H100=-1", "LEASEHOLD_GRPC_PORT": "many"}
    with pytest.raises(SettingsError) as told:
        load(AdmissionSettings, environment(tmp_path) | wrong)
    assert [error.partition(":")[0] for error in sorted(told.value.errors)] == [
        "LEASEHOLD_GRPC_PORT",
        "LEASEHOLD_STARTER_QUOTA",
    ]


def test_a_peer_that_is_not_named_is_missed_at_the_start(tmp_path: Path) -> None:
    alone = {"LEASEHOLD_PEERS": "gateway=127.0.0.1:7401"}
    with pytest.raises(SettingsError) as told:
        load(AdmissionSettings, environment(tmp_path) | alone)
    assert told.value.errors == [
        "LEASEHOLD_PEERS does not name billing",
        "LEASEHOLD_PEERS does not name placement",
    ]


def environment(folder: Path) -> dict[str, str]:
    return {
        "LEASEHOLD_POSTGRES_URL": "postgresql://admission@/leasehold?host=/run/postgres",
        "LEASEHOLD_NATS_URL": "nats://127.0.0.1:7409",
        "LEASEHOLD_IDENTITY_DIR": str(folder),
        "LEASEHOLD_GRPC_PORT": "7402",
        "LEASEHOLD_METRICS_PORT": "7422",
        "LEASEHOLD_PEERS": PEERS,
    }
