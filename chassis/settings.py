"""Typed settings from the environment and a TOML file; every mistake is reported at once.

A settings class is a frozen, keyword-only dataclass. The field ``grpc_port`` is the variable
``LEASEHOLD_GRPC_PORT`` and the key ``grpc_port`` of the file named by ``LEASEHOLD_CONFIG``; the
environment wins. A ``Secret`` may also be in a file named by ``LEASEHOLD_<NAME>_FILE``.

The value of a ``Secret`` field must never reach a message: errors name the setting, and quote a
value only when its type is not secret.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from chassis.setting_values import Secret as Secret
from chassis.setting_values import check_bounds, read_secret_file, read_value

_PREFIX = "LEASEHOLD_"
_CONFIG = _PREFIX + "CONFIG"


class SettingsError(Exception):
    """Everything that is wrong with the settings, one sentence per item."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


def limits(
    *,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
    unsafe_in_production: Callable[[Any], bool] | None = None,
) -> dict[str, Any]:
    """Metadata for a field.

    A value that is ``unsafe_in_production`` is refused there unless UNSAFE_<NAME> is true.
    """
    return {"low": low, "high": high, "choices": choices, "unsafe": unsafe_in_production}


PORT = limits(low=0, high=65535)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every process has."""

    environment: str = field(
        default="development", metadata=limits(choices=("development", "production"))
    )
    otlp_endpoint: str = ""

    def problems(self) -> list[str]:
        """Combinations of valid values that make no sense; subclasses add theirs."""
        return []


def _postgres_in_the_clear(url: Secret) -> bool:
    local = re.match(r"postgres(ql)?://([^@/]*@)?(/|\?|$)", url.reveal())
    return not local and "sslmode=verify-full" not in url.reveal()


def _bus_in_the_clear(url: Secret) -> bool:
    return any(not one.startswith("tls://") for one in url.reveal().split(","))


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(Settings):
    """What every service has. Port 0 means any free port."""

    postgres_url: Secret = field(metadata=limits(unsafe_in_production=_postgres_in_the_clear))
    nats_url: Secret = field(metadata=limits(unsafe_in_production=_bus_in_the_clear))
    identity_dir: Path
    grpc_port: int = field(metadata=PORT)
    metrics_port: int = field(metadata=PORT)
    host: str = "127.0.0.1"
    peers: dict[str, str] = field(default_factory=dict)
    shard: int = field(default=0, metadata=limits(low=0, high=1023))
    leader_ttl_ms: int = field(default=2500, metadata=limits(low=500, high=60_000))

    def problems(self) -> list[str]:
        found = super().problems()
        if self.grpc_port and self.grpc_port == self.metrics_port:
            found.append(f"{_PREFIX}METRICS_PORT must differ from {_PREFIX}GRPC_PORT")
        if not self.identity_dir.is_dir():
            found.append(f"{_PREFIX}IDENTITY_DIR: {self.identity_dir} is not a folder")
        return found


S = TypeVar("S", bound=Settings)


def load(cls: type[S], environ: Mapping[str, str]) -> S:
    """All settings of ``cls``, or a SettingsError with every mistake."""
    errors: list[str] = []
    document = _document(environ, errors)
    kinds = typing.get_type_hints(cls)
    values = {}
    for item in fields(cls):
        try:
            values[item.name] = _value(item, kinds[item.name], environ, document)
        except ValueError as error:
            errors.append(f"{_PREFIX}{item.name.upper()}{error}")
    errors += _unsafe(cls, values, environ, document)
    errors += [f"{environ[_CONFIG]}: {key} is not a setting" for key in document]
    if len(values) == len(fields(cls)):
        settings = cls(**values)
        errors += settings.problems()
        if not errors:
            return settings
    raise SettingsError(errors)


def load_or_exit(cls: type[S], environ: Mapping[str, str] = os.environ) -> S:
    """For ``main``: prints each mistake on a line of its own and exits with code 2."""
    try:
        return load(cls, environ)
    except SettingsError as error:
        for line in error.errors:
            print(line, file=sys.stderr)
        raise SystemExit(2) from None


def _document(environ: Mapping[str, str], errors: list[str]) -> dict[str, Any]:
    name = environ.get(_CONFIG, "")
    if not name:
        return {}
    try:
        return tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        errors.append(f"{_CONFIG}: {name}: {error.strerror}")
    except ValueError as error:
        errors.append(f"{_CONFIG}: {name} is not TOML: {error}")
    return {}


def _value(
    item: Field[Any], kind: Any, environ: Mapping[str, str], document: dict[str, Any]
) -> Any:
    """Takes its key out of ``document``, so that what remains there is unknown."""
    variable = _PREFIX + item.name.upper()
    in_file = document.pop(item.name, None)
    raw = environ.get(variable, in_file)
    if kind is Secret and raw is None and environ.get(variable + "_FILE"):
        return read_secret_file(Path(environ[variable + "_FILE"]))
    if raw is not None:
        value = read_value(kind, raw)
        check_bounds(value, item.metadata)
        return value
    if item.default is not MISSING:
        return item.default
    if item.default_factory is not MISSING:
        return item.default_factory()
    raise ValueError(" is not set")


def _unsafe(
    cls: type[Settings],
    values: dict[str, Any],
    environ: Mapping[str, str],
    document: dict[str, Any],
) -> list[str]:
    found = []
    for item in fields(cls):
        unsafe = item.metadata.get("unsafe")
        if unsafe is None:
            continue
        key = f"unsafe_{item.name}"
        meant = environ.get(_PREFIX + key.upper()) == "true" or document.pop(key, False) is True
        production = values.get("environment") == "production" and item.name in values
        if production and not meant and unsafe(values[item.name]):
            name = _PREFIX + item.name.upper()
            found.append(f"{name} is unsafe in production; {_PREFIX}{key.upper()}=true allows it")
    return found
