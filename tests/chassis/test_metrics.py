"""The metrics listener over real HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from chassis.metrics import MetricsListener


class Readiness:
    reason = ""


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def listener(readiness: Readiness) -> Iterator[MetricsListener]:
    listener = MetricsListener("127.0.0.1", 0, lambda: readiness.reason)
    listener.start()
    yield listener
    listener.stop()


def test_metrics_tell_the_memory_of_the_process(listener: MetricsListener) -> None:
    answer = get(listener, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert found["process_resident_memory_bytes"].samples[0].value > 1_000_000


def test_health_is_ok_while_the_process_lives(listener: MetricsListener) -> None:
    assert (get(listener, "/healthz").status_code, get(listener, "/healthz").text) == (200, "ok\n")


def test_readiness_gives_its_reason(listener: MetricsListener, readiness: Readiness) -> None:
    assert get(listener, "/readyz").status_code == 200
    readiness.reason = "standby"
    answer = get(listener, "/readyz")
    assert (answer.status_code, answer.text) == (503, "standby\n")


def test_there_is_nothing_else(listener: MetricsListener) -> None:
    for path in ("/", "/debug", "/metrics/..", "/metrics?x=1"):
        assert get(listener, path).status_code == 404
    assert httpx.post(f"http://127.0.0.1:{listener.port}/metrics").status_code == 501


def test_a_client_that_says_nothing_keeps_nobody_waiting(listener: MetricsListener) -> None:
    with (
        socket.create_connection(("127.0.0.1", listener.port)),
        ThreadPoolExecutor(8) as pool,
    ):
        answers = list(pool.map(lambda _: get(listener, "/healthz").status_code, range(20)))
    assert answers == [200] * 20


def test_a_taken_port_is_refused(listener: MetricsListener) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsListener("127.0.0.1", listener.port, lambda: "")


def test_a_stopped_listener_frees_its_port() -> None:
    first = MetricsListener("127.0.0.1", 0, lambda: "")
    first.start()
    first.stop()
    second = MetricsListener("127.0.0.1", first.port, lambda: "")
    second.start()
    assert get(second, "/healthz").status_code == 200
    second.stop()


def get(listener: MetricsListener, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{listener.port}{path}")
