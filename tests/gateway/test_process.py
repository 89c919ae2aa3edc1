"""The gateway as a process of its own: settings, start, kill, stop."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from chassis import identity, schema
from chassis.settings import SettingsError, load
from gateway.__main__ import GatewaySettings
from gateway.http.calls import SERVICES
from tests import servers
from tests.waiting import wait_for

SECRET = "only for tests"
GRANT = {"grant_type": "client_credentials"}


def test_a_killed_gateway_comes_back_with_its_tenants_and_its_tokens(
    environment: dict[str, str],
) -> None:
    url = f"http://127.0.0.1:{environment['LEASEHOLD_HTTP_PORT']}"
    with process(environment) as first, client(url) as http:
        signed = answer(http, first)
        auth = (signed["client_id"], signed["client_secret"])
        token = http.post("/oauth/token", data=GRANT, auth=auth).json()["access_token"]
        first.kill()
    with process(environment) as second, client(url, token) as http:
        path = f"/v1/tenants/{signed['tenant']['tenant_id']}"
        wait_for(lambda: got(http, path) == 200, seconds=30, what="the tenant to be back")
        away = http.get("/v1/balance")
        assert (away.status_code, away.headers["retry-after"]) == (503, "1")
        second.send_signal(signal.SIGTERM)
        _, said = second.communicate(timeout=10)
        assert second.returncode == 0, said


def test_every_wrong_setting_is_named_at_once(environment: dict[str, str]) -> None:
    wrong = environment | {
        "LEASEHOLD_HTTP_PORT": environment["LEASEHOLD_GRPC_PORT"],
        "LEASEHOLD_OPERATOR_SECRET_SHA256": SECRET,
        "LEASEHOLD_FINANCE_CLIENT_ID": "books",
        "LEASEHOLD_PEERS": "admission=127.0.0.1:1",
    }
    with pytest.raises(SettingsError) as refusal:
        load(GatewaySettings, wrong)
    assert refusal.value.errors == [
        "LEASEHOLD_OPERATOR_SECRET_SHA256 must be 64 hexadecimal digits",
        "LEASEHOLD_FINANCE_SECRET_SHA256 must be 64 hexadecimal digits",
        "LEASEHOLD_PEERS does not name aggregator, billing, enforcement, gateway, placement",
        "LEASEHOLD_HTTP_PORT must differ from the other ports",
    ]


# What the tests stand on.


@pytest.fixture
def environment(database_url: str, nats_url: str, tmp_path: Path) -> dict[str, str]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(schema.ddl("gateway", connection.info.user).encode())
    identity.create_root(tmp_path / "root")
    uri = "spiffe://leasehold/svc/gateway"
    identity.issue(tmp_path / "root", tmp_path / "gateway", uri, ("gateway",))
    ports = {service: servers.free_port() for service in SERVICES}
    settings = {
        "POSTGRES_URL": database_url,
        "NATS_URL": nats_url,
        "IDENTITY_DIR": str(tmp_path / "gateway"),
        "TOKEN_KEY_DIR": str(tmp_path / "token_keys"),
        "GRPC_PORT": str(ports["gateway"]),
        "METRICS_PORT": str(servers.free_port()),
        "HTTP_PORT": str(servers.free_port()),
        "PEERS": ",".join(f"{service}=127.0.0.1:{port}" for service, port in ports.items()),
        "OPERATOR_CLIENT_ID": "boss",
        "OPERATOR_SECRET_SHA256": hashlib.sha256(SECRET.encode()).hexdigest(),
    }
    return {**os.environ, **{f"LEASEHOLD_{name}": value for name, value in settings.items()}}


@contextmanager
def process(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "gateway"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def client(url: str, token: str = "") -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=url, headers=headers, timeout=10) as http:
        yield http


def got(http: httpx.Client, path: str) -> int:
    try:
        return http.get(path).status_code
    except httpx.TransportError:
        return 0


def answer(http: httpx.Client, running: subprocess.Popen[str]) -> dict[str, str]:
    def up() -> bool:
        assert running.poll() is None, running.communicate()[1]
        return got(http, "/") == 200

    wait_for(up, seconds=30, what="the gateway to answer")
    return http.post("/v1/tenants", json={"name": "acme"}).json()  # type: ignore[no-any-return]
