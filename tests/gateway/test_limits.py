"""Limits: how fast, how long, how slow a client may be."""

import socket

import pytest

from gateway.http import incoming
from gateway.policy import SECOND, SIGN_UP_RATE, TENANT_RATE
from tests.gateway.rig import Rig


def test_too_many_sign_ups_from_one_address_have_to_wait(rig: Rig) -> None:
    client = rig.client()
    statuses = [client.post("/v1/tenants", json={}).status_code for _ in range(SIGN_UP_RATE.burst)]
    assert set(statuses) == {400}
    refused = client.post("/v1/tenants", json={})
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert refused.headers["retry-after"] == "1"
    rig.ticks += SECOND
    assert client.post("/v1/tenants", json={}).status_code == 400


def test_a_fast_tenant_is_slowed_down_and_another_is_not(rig: Rig) -> None:
    _, fast = rig.tenant()
    _, other = rig.tenant()
    statuses = [fast.get("/v1/prices?x").status_code for _ in range(TENANT_RATE.burst)]
    assert set(statuses) == {400}
    assert fast.get("/v1/prices").status_code == 429
    assert other.get("/v1/prices").status_code == 200
    rig.ticks += SECOND
    assert fast.get("/v1/prices").status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "BODY_SECONDS", 0.2)
    head = (
        b"POST /v1/tenants HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    port = int(rig.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
        slow.sendall(head)
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
