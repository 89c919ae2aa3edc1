"""Log lines are JSON, carry their ids, and hold no secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from chassis import logs, tracing
from chassis.identity import new_key_and_request
from chassis.settings import Secret

CANARY = "canary-7f3a"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    stream = io.StringIO()
    logs.configure("billing", stream=stream)
    yield stream
    root.handlers[:], root.level = before


def test_a_line_is_one_json_object(lines: io.StringIO) -> None:
    logging.getLogger("x").info("posted %d\nentries", 3, extra={"tenant": "ten_1", "n": 5})
    line = only(lines)
    assert (line["level"], line["service"], line["logger"]) == ("info", "billing", "x")
    assert (line["message"], line["tenant"], line["n"]) == ("posted 3\nentries", "ten_1", 5)
    assert line["time"].endswith("+00:00")
    assert "correlation_id" not in line


def test_a_line_carries_correlation_and_trace(lines: io.StringIO) -> None:
    with logs.correlated("wl_1"), tracing.span("work"):
        logging.getLogger("x").warning("inside")
        trace_id = tracing.current_trace_id()
    assert len(trace_id) == 32
    assert (only(lines)["correlation_id"], only(lines)["trace_id"]) == ("wl_1", trace_id)


def test_a_stack_is_kept(lines: io.StringIO) -> None:
    try:
        raise LookupError("nothing here")
    except LookupError:
        logging.getLogger("x").exception("failed")
    assert "LookupError: nothing here" in only(lines)["stack"]


def test_odd_values_do_not_break_a_line(lines: io.StringIO) -> None:
    extra = {"big": 2**70, "bytes": b"\xff", "nested": {1: {"x": [object, None, True]}}}
    logging.getLogger("x").info("odd \ud800 text", extra=extra)
    assert only(lines)["big"] == str(2**70)


@pytest.mark.parametrize(
    ("message", "arguments", "extra"),
    [
        ("secret is %s", (Secret(CANARY),), {}),
        ("fine", (), {"value": Secret(CANARY)}),
        ("fine", (), {"values": [Secret(CANARY)], "deep": {"values": {"x": Secret(CANARY)}}}),
        ("fine", (), {"client_secret": CANARY}),
        ("fine", (), {"Authorization": f"Bearer {CANARY}"}),
        ("fine", (), {"request": {"headers": {"authorization": CANARY}, "join_token": CANARY}}),
        ("fine", (), {"rows": [{"password": CANARY}]}),
        ("cannot reach postgresql://billing:%s@db/x", (CANARY,), {}),
        ("cannot reach nats://:%s@bus", (CANARY,), {}),
        ("got Authorization: Bearer %s", (CANARY,), {}),
        ("header bearer %s", (CANARY,), {}),
        ("join_token=%s was used", (CANARY,), {}),
        ('{"password": "%s"}', (CANARY,), {}),
        ("fine", (), {"cause": f"secret: {CANARY}"}),
    ],
)
def test_no_secret_reaches_a_line(
    lines: io.StringIO, message: str, arguments: tuple[Any, ...], extra: dict[str, Any]
) -> None:
    logging.getLogger("x").info(message, *arguments, extra=extra)
    assert CANARY not in lines.getvalue()
    assert "***" in lines.getvalue()


def test_no_secret_reaches_a_stack(lines: io.StringIO) -> None:
    key, _ = new_key_and_request()
    try:
        raise RuntimeError(f"postgresql://u:{CANARY}@db refused; {key.decode()}")
    except RuntimeError:
        logging.getLogger("x").exception("failed")
    assert CANARY not in lines.getvalue()
    assert "PRIVATE KEY" not in lines.getvalue()


def test_plain_addresses_stay_readable(lines: io.StringIO) -> None:
    text = "connected to nats://127.0.0.1:7409 and billing@127.0.0.1:7406; 3 tokens left"
    logging.getLogger("x").info(text)
    assert only(lines)["message"] == text


def only(lines: io.StringIO) -> dict[str, Any]:
    (line,) = lines.getvalue().splitlines()
    parsed: dict[str, Any] = json.loads(line)
    return parsed
