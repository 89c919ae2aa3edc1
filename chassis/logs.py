"""Structured logs: one JSON object per line on stderr, with correlation and trace ids.

No secret may reach a line. Three things stand before it: ``Secret`` prints itself as ***, a
field whose name sounds secret is not printed, and credentials inside text (URLs, bearer tokens,
``password=…``) are cut out, also from stack traces.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from chassis.tracing import current_trace_id

_HIDDEN = "***"
_SECRET_NAME = re.compile(r"secret|token|password|authorization|private_key", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?P<url>://[^\s:/@]*:)[^\s@]+(?=@)"
    r"|(?P<bearer>\b(?:bearer|basic)\s+)[^\s,;'\"]+"
    r"|(?P<named>\w*(?:secret|token|password|authorization)\w*[\"']?\s*[=:]\s*)"
    r"(?!(?:bearer|basic)\s)[^\s,;}]+",
    re.IGNORECASE,
)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S)
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime"}

_correlation_id: ContextVar[str] = ContextVar("correlation_id", default="")


def configure(service: str, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Makes every logger of this process write JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


@contextmanager
def correlated(correlation_id: str) -> Iterator[None]:
    """Lines logged inside carry this correlation id."""
    token = _correlation_id.set(correlation_id)
    try:
        yield
    finally:
        _correlation_id.reset(token)


class JsonFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "service": self.service,
            "logger": record.name,
            "message": scrub(record.getMessage()),
        }
        if correlation_id := _correlation_id.get():
            line["correlation_id"] = correlation_id
        if trace_id := current_trace_id():
            line["trace_id"] = trace_id
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line[name] = redacted(name, value)
        if record.exc_info:
            line["stack"] = scrub(self.formatException(record.exc_info))
        return orjson.dumps(line, default=_as_text, option=orjson.OPT_NON_STR_KEYS).decode()


def redacted(name: str, value: Any) -> Any:
    """``value`` as it may be shown under ``name``."""
    if _SECRET_NAME.search(name):
        return _HIDDEN
    if isinstance(value, dict):
        return {str(key): redacted(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted("", item) for item in value]
    if isinstance(value, int | None):
        return value if value is None or -(2**63) <= value < 2**63 else str(value)
    return scrub(str(value))


def scrub(text: str) -> str:
    """``text`` without the credentials in it."""
    clean = _PEM.sub(_HIDDEN, _IN_TEXT.sub(_replacement, text))
    return clean.encode("utf-8", "backslashreplace").decode()  # half a surrogate is no UTF-8


def _replacement(match: re.Match[str]) -> str:
    return (match["url"] or match["bearer"] or match["named"]) + _HIDDEN


def _as_text(value: object) -> str:
    return scrub(str(value))
