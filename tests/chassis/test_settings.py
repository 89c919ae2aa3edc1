"""Settings: every kind of mistake is found, all of them at once, and no secret is shown."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from chassis.settings import (
    Secret,
    ServiceSettings,
    Settings,
    SettingsError,
    limits,
    load,
    load_or_exit,
)

CANARY = "canary-7f3a"


@dataclass(frozen=True, kw_only=True)
class Example(Settings):
    name: str
    key: Secret
    count: int = field(default=3, metadata=limits(low=1, high=9))
    loud: bool = False
    prices: dict[str, Decimal] = field(default_factory=dict)
    quota: dict[str, int] = field(default_factory=dict, metadata=limits(low=1))
    simulated: bool = field(
        default=True, metadata=limits(unsafe_in_production=lambda value: bool(value))
    )


REQUIRED = {"LEASEHOLD_NAME": "x", "LEASEHOLD_KEY": CANARY}


def test_the_environment_is_read_into_types() -> None:
    settings = example(COUNT="9", LOUD="true", PRICES="H100=2.49,A100=1", QUOTA="H100=8")
    assert (settings.name, settings.count, settings.loud) == ("x", 9, True)
    assert settings.prices == {"H100": Decimal("2.49"), "A100": Decimal(1)}
    assert settings.quota == {"H100": 8}
    assert settings.key.reveal() == CANARY


def test_defaults_hold_where_nothing_is_set() -> None:
    settings = example()
    assert (settings.count, settings.prices, settings.environment) == (3, {}, "development")


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    text = 'name = "file"\ncount = 5\nloud = true\n[quota]\nH100 = 4\n[prices]\nH100 = "2.50"\n'
    settings = example(CONFIG=write(tmp_path, text), COUNT="6")
    assert (settings.name, settings.count, settings.loud) == ("x", 6, True)
    assert settings.quota == {"H100": 4}
    assert settings.prices == {"H100": Decimal("2.50")}


def test_a_secret_can_come_from_a_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(f"{CANARY}\n")
    path.chmod(0o600)
    environ = {"LEASEHOLD_NAME": "x", "LEASEHOLD_KEY_FILE": str(path)}
    assert load(Example, environ).key.reveal() == CANARY
    path.chmod(0o644)
    assert mistakes(environ) == [
        f"LEASEHOLD_KEY: {path} can be read by others; set its mode to 0600"
    ]
    assert "No such file" in mistakes({**environ, "LEASEHOLD_KEY_FILE": "/nowhere"})[0]


def test_every_mistake_is_listed_at_once(tmp_path: Path) -> None:
    config = write(tmp_path, 'colour = "red"\nloud = "yes"\n')
    found = mistakes(
        {
            "LEASEHOLD_CONFIG": config,
            "LEASEHOLD_COUNT": "10",
            "LEASEHOLD_PRICES": "H100",
            "LEASEHOLD_QUOTA": "H100=0",
            "LEASEHOLD_ENVIRONMENT": "prod",
        }
    )
    assert sorted(found) == sorted(
        [
            "LEASEHOLD_NAME is not set",
            "LEASEHOLD_KEY is not set",
            "LEASEHOLD_COUNT: 10 is more than 9",
            "LEASEHOLD_LOUD: 'yes' is neither true nor false",
            "LEASEHOLD_PRICES: 'H100' is not name=value",
            "LEASEHOLD_QUOTA: 0 is less than 1",
            "LEASEHOLD_ENVIRONMENT: 'prod' is none of development, production",
            f"{config}: colour is not a setting",
        ]
    )


@pytest.mark.parametrize("text", ["", " 4", "1_0", "４", "4.0", "0x4", "four", "+4", "9" * 19])
def test_only_plain_digits_are_a_whole_number(text: str) -> None:
    assert mistakes({**REQUIRED, "LEASEHOLD_COUNT": text}) == [
        f"LEASEHOLD_COUNT: {text!r} is not a whole number"
    ]


@pytest.mark.parametrize("text", ["NaN", "1e3", "1,5", ".5", "1_0", "inf"])
def test_only_plain_decimals_are_a_price(text: str) -> None:
    assert len(mistakes({**REQUIRED, "LEASEHOLD_PRICES": f"H100={text}"})) == 1


@pytest.mark.parametrize("text", ["True", "1", "on", ""])
def test_only_true_and_false_are_truths(text: str) -> None:
    assert len(mistakes({**REQUIRED, "LEASEHOLD_LOUD": text})) == 1


@pytest.mark.parametrize("line", ["count = 4.5", "count = true", 'name = 4\nkey = ["a"]'])
def test_a_value_of_another_type_in_the_file_is_a_mistake(tmp_path: Path, line: str) -> None:
    environ = {"LEASEHOLD_CONFIG": write(tmp_path, line)}
    if "count" in line:
        environ |= REQUIRED
    assert len(mistakes(environ)) == line.count("=")


def test_a_name_in_a_list_is_given_once() -> None:
    assert mistakes({**REQUIRED, "LEASEHOLD_QUOTA": "H100=1,H100=2"}) == [
        "LEASEHOLD_QUOTA: 'H100' is named twice"
    ]


def test_a_file_that_is_missing_or_no_toml_is_a_mistake(tmp_path: Path) -> None:
    assert "No such file" in mistakes({**REQUIRED, "LEASEHOLD_CONFIG": "/nowhere"})[0]
    broken = write(tmp_path, f'key = "{CANARY}')
    (found,) = mistakes({**REQUIRED, "LEASEHOLD_CONFIG": broken})
    assert "is not TOML" in found
    assert CANARY not in found


def test_unsafe_values_need_their_own_word_in_production(tmp_path: Path) -> None:
    production = {**REQUIRED, "LEASEHOLD_ENVIRONMENT": "production"}
    assert mistakes(production) == [
        "LEASEHOLD_SIMULATED is unsafe in production; LEASEHOLD_UNSAFE_SIMULATED=true allows it"
    ]
    assert not load(Example, {**production, "LEASEHOLD_SIMULATED": "false"}).simulated
    assert load(Example, {**production, "LEASEHOLD_UNSAFE_SIMULATED": "true"}).simulated
    config = write(tmp_path, "unsafe_simulated = true\n")
    assert load(Example, {**production, "LEASEHOLD_CONFIG": config}).simulated


def test_secrets_never_show(tmp_path: Path) -> None:
    settings = example()
    shown = [repr(settings), str(settings.key), f"{settings.key}", f"{settings.key!r}"]
    shown += [str(dataclasses.asdict(settings)), str([settings.key])]
    config = write(tmp_path, f"key = ['{CANARY}']\n")
    shown += mistakes({"LEASEHOLD_CONFIG": config, "LEASEHOLD_COUNT": "0"})
    assert not [text for text in shown if CANARY in text]
    assert settings.key == Secret(CANARY) != Secret("another")


def test_the_settings_of_a_service(tmp_path: Path) -> None:
    settings = load(ServiceSettings, service_environ(tmp_path))
    assert settings.peers == {"placement": "127.0.0.1:7403|127.0.0.1:8403"}
    assert (settings.host, settings.shard, settings.leader_ttl_ms) == ("127.0.0.1", 0, 2500)
    wrong = {"LEASEHOLD_METRICS_PORT": "7402", "LEASEHOLD_IDENTITY_DIR": "/nowhere"}
    assert mistakes({**service_environ(tmp_path), **wrong}, ServiceSettings) == [
        "LEASEHOLD_METRICS_PORT must differ from LEASEHOLD_GRPC_PORT",
        "LEASEHOLD_IDENTITY_DIR: /nowhere is not a folder",
    ]


def test_in_production_a_service_speaks_to_database_and_bus_encrypted(tmp_path: Path) -> None:
    production = {**service_environ(tmp_path), "LEASEHOLD_ENVIRONMENT": "production"}
    found = mistakes(production, ServiceSettings)
    assert [line.split()[0] for line in found] == ["LEASEHOLD_POSTGRES_URL", "LEASEHOLD_NATS_URL"]
    assert CANARY not in str(found)
    for url in ("postgresql://u:p@db/x?sslmode=verify-full", "postgresql://u@/x?host=/run/pg"):
        safe = {"LEASEHOLD_POSTGRES_URL": url, "LEASEHOLD_NATS_URL": "tls://bus:4222"}
        assert load(ServiceSettings, {**production, **safe}).environment == "production"


def test_a_process_with_mistakes_prints_each_on_a_line_and_exits_with_2(tmp_path: Path) -> None:
    program = (
        "from chassis.settings import ServiceSettings, load_or_exit\nload_or_exit(ServiceSettings)"
    )
    environ = {"LEASEHOLD_GRPC_PORT": "x", "LEASEHOLD_NATS_URL": CANARY, "PYTHONPATH": "."}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "LEASEHOLD_POSTGRES_URL is not set",
        "LEASEHOLD_IDENTITY_DIR is not set",
        "LEASEHOLD_GRPC_PORT: 'x' is not a whole number",
        "LEASEHOLD_METRICS_PORT is not set",
    ]
    with pytest.raises(SystemExit):
        load_or_exit(Example, {})


def example(**variables: str) -> Example:
    return load(Example, REQUIRED | {f"LEASEHOLD_{k}": v for k, v in variables.items()})


def mistakes(environ: dict[str, str], cls: type[Any] = Example) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load(cls, environ)
    return raised.value.errors


def write(folder: Path, text: str) -> str:
    path = folder / "settings.toml"
    path.write_text(text)
    return str(path)


def service_environ(tmp_path: Path) -> dict[str, str]:
    return {
        "LEASEHOLD_POSTGRES_URL": f"postgresql://u:{CANARY}@127.0.0.1/x",
        "LEASEHOLD_NATS_URL": f"nats://u:{CANARY}@127.0.0.1",
        "LEASEHOLD_IDENTITY_DIR": str(tmp_path),
        "LEASEHOLD_GRPC_PORT": "7402",
        "LEASEHOLD_METRICS_PORT": "7422",
        "LEASEHOLD_PEERS": "placement=127.0.0.1:7403|127.0.0.1:8403",
    }
