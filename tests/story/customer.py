"""A tenant as it meets the platform: over REST, repeating whatever was not answered.

Every change carries an idempotency key that stays the same when it is repeated, so a customer
that never gives up still gets everything exactly once.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from chassis import ids
from leasehold.launcher.platform import Platform
from tests.waiting import let_pass, wait_for

PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.1
# What a client repeats: nobody there, not now, too fast.
PASSING = {429, 502, 503, 504}
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}


class Caller:
    """Somebody with a credential."""

    def __init__(self, url: str, client_id: str, client_secret: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=5, trust_env=False)
        self._credential = (client_id, client_secret)
        self._token = ""
        self._token_until = 0.0

    def close(self) -> None:
        self._http.close()

    def get(self, path: str) -> Any:
        return self._expect(self.send("GET", path))

    def post(self, path: str, body: Any = None) -> Any:
        return self._expect(self.send("POST", path, {} if body is None else body))

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Idempotency-Key": ids.new("key")} if method != "GET" else {}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._try(method, path, body, headers)
            if answer is not None and answer.status_code not in PASSING:
                return answer
            assert time.monotonic() < deadline, f"{method} {path} was not answered: {answer}"
            let_pass(PAUSE_SECONDS)

    def _try(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> httpx.Response | None:
        try:
            if time.monotonic() > self._token_until:
                answer = self._http.post(
                    "/oauth/token",
                    data={"grant_type": "client_credentials"},
                    auth=self._credential,
                )
                if answer.status_code != httpx.codes.OK:
                    return answer
                self._token = answer.json()["access_token"]
                self._token_until = time.monotonic() + answer.json()["expires_in"] / 2
            bearer = {"Authorization": f"Bearer {self._token}"}
            return self._http.request(method, path, json=body, headers={**headers, **bearer})
        except httpx.TransportError:
            return None

    @staticmethod
    def _expect(answer: httpx.Response) -> Any:
        assert answer.status_code < 300, f"{answer.request.url}: {answer.status_code} {answer.text}"
        return answer.json()


class Customer(Caller):
    """A tenant with money."""

    def __init__(self, url: str, signed_up: dict[str, Any]) -> None:
        super().__init__(url, signed_up["client_id"], signed_up["client_secret"])
        self.tenant_id: str = signed_up["tenant"]["tenant_id"]

    def submit(self, name: str, script: str, *, gpus: int = 1, seconds_max: int = 120) -> str:
        intent = {
            "apiVersion": "leasehold/v1",
            "kind": "Component",
            "metadata": {"name": name, "project": "default"},
            "spec": {
                "type": "training-job",
                "env": "dev",
                "gpus": gpus,
                "gpuModel": "H100",
                "command": ["/bin/sh", "-c", script],
                "secondsMax": seconds_max,
            },
        }
        return str(self.post("/v1/workloads", intent)["workload_id"])

    def workload(self, workload_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/workloads/{workload_id}")
        return found

    def has_ended(self, workload_id: str) -> bool:
        return self.workload(workload_id)["state"] in ENDED

    def trail(self, lease_id: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.get(f"/v1/leases/{lease_id}/trail")["events"]
        return events


SignUp = Callable[..., Customer]


def operator(platform: Platform) -> Caller:
    known = json.loads((platform.state / "operator.json").read_text())
    return Caller(known["gateway_url"], known["client_id"], known["client_secret"])


def funded_customer(platform: Platform, name: str, amount: str = "100.00") -> Customer:
    """Signs up, and is funded as soon as billing has heard of it."""
    url = platform.addresses()["gateway_url"]
    staff = operator(platform)
    customer = Customer(url, staff.post("/v1/tenants", {"name": name}))
    top_up = {"amount": amount, "currency": "USD", "reference": f"wire for {name}"}

    def is_funded() -> bool:
        answer = staff.send("POST", f"/v1/tenants/{customer.tenant_id}/top-ups", top_up)
        assert answer.status_code in (httpx.codes.CREATED, httpx.codes.NOT_FOUND), answer.text
        return answer.status_code == httpx.codes.CREATED

    wait_for(is_funded, seconds=PATIENCE_SECONDS, what=f"an account for {name}")
    staff.close()
    return customer


def timed(seconds: float, witness: Path) -> str:
    """A script that runs for a while and writes down by its own clock for how long."""
    return (
        f"began=$(date +%s%N); echo working; sleep {seconds}; ended=$(date +%s%N);"
        f" echo $(( (ended - began) / 1000 )) > {witness}"
    )
