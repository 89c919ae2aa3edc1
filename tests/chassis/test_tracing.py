"""Trace context in and out of the platform's three transports."""

from __future__ import annotations

import time

import pytest

from chassis import tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def test_outside_of_a_span_there_is_nothing_to_send() -> None:
    assert tracing.current_traceparent() == tracing.current_trace_id() == ""
    assert tracing.headers() == {}
    assert tracing.metadata() == ()


def test_a_span_continues_the_trace_it_was_given() -> None:
    with tracing.span("receive", PARENT):
        outer = tracing.current_traceparent()
        with tracing.span("work"):
            inner = tracing.current_traceparent()
    assert tracing.current_traceparent() == ""
    assert [text.split("-")[1] for text in (outer, inner)] == [TRACE, TRACE]
    assert len({PARENT[36:52], outer[36:52], inner[36:52]}) == 3


def test_what_is_sent_can_be_read_back_from_every_transport() -> None:
    with tracing.span("send"):
        sent = tracing.current_traceparent()
        assert tracing.extract(tracing.metadata()) == sent
        assert tracing.extract(tracing.headers().items()) == sent
    assert tracing.extract([("X-Other", "1"), ("Traceparent", sent.encode())]) == sent
    assert tracing.extract([]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        PARENT + "\n",
        PARENT.upper(),
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        PARENT[:-1],
        PARENT + "-extra",
        PARENT.replace("0af7", "０af7"),
    ],
)
def test_a_malformed_header_starts_a_new_trace(text: str) -> None:
    assert tracing.extract([("traceparent", text)]) == ""
    with tracing.span("receive", text):
        assert tracing.current_trace_id() not in ("", TRACE)


def test_an_error_passes_through_a_span() -> None:
    with pytest.raises(LookupError), tracing.span("work"):
        raise LookupError
    assert tracing.current_traceparent() == ""


def test_an_exporter_that_is_not_installed_is_reported_and_not_fatal() -> None:
    assert tracing.configure("billing")
    assert not tracing.configure("billing", "http://127.0.0.1:4318/v1/traces")
    with tracing.span("work"):
        assert tracing.current_traceparent()


def test_a_span_costs_little() -> None:
    best = min(batch_seconds() for _ in range(5))
    assert best / 1000 < 200e-6  # about 12 µs; the bound allows for a busy machine


def batch_seconds() -> float:
    started = time.perf_counter()
    for _ in range(1000):
        with tracing.span("work", PARENT):
            tracing.metadata()
    return time.perf_counter() - started
