"""How the text or TOML value of one setting becomes a typed one, strictly.

Python's own conversions are too kind for settings: ``int("1_0")``, ``int(" 4 ")`` and
``bool("false")`` all succeed. Every ValueError raised here completes a sentence that begins with
the name of the setting, and never quotes a secret.
"""

from __future__ import annotations

import hmac
import re
import typing
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


class Secret:
    """Text that shows itself only when asked by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)


def read_value(kind: Any, raw: Any) -> Any:
    """``raw`` from the environment (text) or from TOML (text, number, bool or table)."""
    if typing.get_origin(kind) is dict:
        _, inner = typing.get_args(kind)
        return {name: _READERS[inner](item) for name, item in _items(raw).items()}
    return _READERS[kind](raw)


def read_secret_file(path: Path) -> Secret:
    try:
        if path.stat().st_mode & 0o077:
            raise ValueError(f": {path} can be read by others; set its mode to 0600")
        return Secret(path.read_text(encoding="utf-8").strip())
    except OSError as error:
        raise ValueError(f": {path}: {error.strerror}") from None


def check_bounds(value: Any, bounds: Mapping[str, Any]) -> None:
    low, high, choices = bounds.get("low"), bounds.get("high"), bounds.get("choices")
    for number in value.values() if isinstance(value, dict) else (value,):
        if low is not None and number < low:
            raise ValueError(f": {number} is less than {low}")
        if high is not None and number > high:
            raise ValueError(f": {number} is more than {high}")
        if choices and number not in choices:
            raise ValueError(f": {number!r} is none of {', '.join(choices)}")


def _items(raw: Any) -> Mapping[str, Any]:
    if isinstance(raw, dict):
        return raw
    found: dict[str, str] = {}
    for part in filter(None, _text(raw).split(",")):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise ValueError(f": {part!r} is not name=value")
        if name in found:
            raise ValueError(f": {name!r} is named twice")
        found[name] = value
    return found


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError(" must be text")
    return raw


def _secret(raw: Any) -> Secret:
    if not _text(raw):
        raise ValueError(" must not be empty")
    return Secret(raw)


def _path(raw: Any) -> Path:
    if not _text(raw):
        raise ValueError(" must not be empty")
    return Path(raw)


def _whole(raw: Any) -> int:
    if type(raw) is int:
        return raw
    if not isinstance(raw, str) or not _WHOLE.fullmatch(raw):
        raise ValueError(f": {raw!r} is not a whole number")
    return int(raw)


def _decimal(raw: Any) -> Decimal:
    if type(raw) is int:
        return Decimal(raw)
    if not isinstance(raw, str) or not _DECIMAL.fullmatch(raw):
        raise ValueError(f": {raw!r} is not a decimal number in quotes")
    return Decimal(raw)


def _truth(raw: Any) -> bool:
    if type(raw) is bool:
        return raw
    if raw not in ("true", "false"):
        raise ValueError(f": {raw!r} is neither true nor false")
    return bool(raw == "true")


_READERS: dict[Any, Any] = {
    str: _text,
    int: _whole,
    bool: _truth,
    Decimal: _decimal,
    Path: _path,
    Secret: _secret,
}
