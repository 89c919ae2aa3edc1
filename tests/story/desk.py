"""A client over REST that sends whatever it is told to, and what a refusal must look like."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from leasehold.launcher.platform import Platform
from tests.story.customer import Customer, funded_customer

JSON, YAML = "application/json", "application/yaml"


@dataclass
class Desk:
    """A tenant of its own, and a client that sends whatever it is told to."""

    customer: Customer
    http: httpx.Client
    client_id: str
    client_secret: str

    def token(self) -> str:
        credential = (self.client_id, self.client_secret)
        form = {"grant_type": "client_credentials"}
        answer = self.http.post("/oauth/token", data=form, auth=credential)
        return str(answer.json()["access_token"])

    def send(
        self,
        body: bytes,
        kind: str = JSON,
        *,
        token: str = "",
        path: str = "/v1/workloads",
        **headers: str,
    ) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Authorization": f"Bearer {token or self.token()}", "Content-Type": kind}
        return self.http.post(path, content=body, headers=named)


@contextmanager
def desk_of(platform: Platform, name: str) -> Iterator[Desk]:
    """The desk of a new, funded tenant."""
    customer = funded_customer(platform, name)
    issued = customer.post("/v1/credentials", {"role": "admin"})
    url = platform.addresses()["gateway_url"]
    with httpx.Client(base_url=url, timeout=10, trust_env=False) as http:
        yield Desk(customer, http, issued["client_id"], issued["client_secret"])
    customer.close()


def document(**spec: Any) -> dict[str, Any]:
    """A good intent, with some of its spec changed."""
    return {
        "apiVersion": "leasehold/v1",
        "kind": "Component",
        "metadata": {"name": "bad-input", "project": "default"},
        "spec": {
            "type": "training-job",
            "gpus": 1,
            "gpuModel": "H100",
            "command": ["true"],
            "secondsMax": 60,
            **spec,
        },
    }


def text(**spec: Any) -> bytes:
    return json.dumps(document(**spec)).encode()


GOOD = text()


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert problem["instance"] == answer.headers["x-request-id"]
    return problem
