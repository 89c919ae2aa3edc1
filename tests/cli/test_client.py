"""Calls to the gateway: retries that do nothing twice, tokens, and failures with exit codes."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import Response

from chassis.errors import (
    Conflict,
    Denied,
    Invalid,
    NotFound,
    Overloaded,
    Refused,
    ServiceError,
    Unavailable,
)
from gateway.http.problems import (
    Incident,
    PreconditionFailed,
    PreconditionRequired,
    TooLarge,
    WrongMediaType,
)
from leasehold.cli.addresses import checked_url
from leasehold.cli.client import Client
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.profiles import Profiles, Token
from tests import servers
from tests.cli.conftest import Run
from tests.cli.shapes import RUNNING, workload
from tests.cli.standin import CLIENT_ID, Asked, StandIn

ITEM = "/v1/things/t_1"


def test_a_lost_answer_is_asked_for_again_with_the_same_key(
    gateway: StandIn, patient: Client
) -> None:
    done: list[str] = []

    def submit(asked: Asked) -> dict[str, int]:
        done.append(asked.key)
        return {"number": len(done)}

    gateway.on("POST", ITEM, submit)
    gateway.troubles.extend(["lost", "503"])
    assert patient.change("POST", ITEM, {"a": 1}) == {"number": 1}
    sent = gateway.calls("POST", ITEM)
    assert len(sent) == 3
    assert {one.key for one in sent} == {done[0]}
    assert {one.body for one in sent} == {b'{"a":1}'}


def test_each_command_has_a_key_of_its_own(gateway: StandIn, patient: Client) -> None:
    gateway.on("POST", ITEM, {})
    for _ in range(3):
        patient.change("POST", ITEM)
    keys = {one.key for one in gateway.asked}
    assert len(keys) == 3
    assert all(keys)


def test_reading_needs_no_key_and_is_repeated_too(gateway: StandIn, patient: Client) -> None:
    gateway.on("GET", ITEM, {"a": 1})
    gateway.troubles.extend(["503", "lost"])
    assert patient.get(ITEM) == {"a": 1}
    assert {one.key for one in gateway.asked} == {""}


def test_retries_end_and_the_key_is_told_for_an_unknown_outcome(
    gateway: StandIn, patient: Client
) -> None:
    gateway.on("POST", ITEM, {})
    gateway.troubles.extend(["lost"] * 20)
    with pytest.raises(Failure, match="not known") as caught:
        patient.change("POST", ITEM, key="mine")
    assert caught.value.exit_code == Exit.UNAVAILABLE
    assert "--key mine" in caught.value.hint
    assert len(gateway.asked) == 5


def test_nothing_was_done_if_nobody_was_there(home: Path) -> None:
    client = Client(f"http://127.0.0.1:{servers.free_port()}", pause=lambda _: None)
    with pytest.raises(Failure, match="does not answer") as caught:
        client.change("POST", ITEM, key="mine")
    assert caught.value.exit_code == Exit.UNAVAILABLE
    assert "not known" not in caught.value.message
    assert "leasehold up" in caught.value.hint
    client.close()


def test_the_gateways_wish_to_wait_is_followed_within_limits(gateway: StandIn) -> None:
    waited: list[float] = []
    for seconds in ("7", "86400", "soon"):
        headers = {"Retry-After": seconds}
        gateway.on("GET", ITEM, lambda _, headers=headers: Response(b"{}", 429, headers))
        client = Client(gateway.url, pause=waited.append)
        with pytest.raises(Failure):
            client.get(ITEM)
        client.close()
    assert waited[0] == 7.0
    assert max(waited) == 10.0
    assert waited[-1] < 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Invalid("x", code="GPUS", field="spec.gpus"), 2),
        (Unavailable("x"), 5),
        (Denied("x"), 1),
        (NotFound("x"), 4),
        (Refused("x"), 1),
        (Conflict("x"), 2),
        (Overloaded("x"), 5),
        (PreconditionFailed("x"), 1),
        (PreconditionRequired("x"), 2),
        (TooLarge("x"), 2),
        (WrongMediaType("x"), 2),
        (Incident("x"), 5),
    ],
)
def test_every_problem_has_its_exit_code_and_keeps_its_own(
    gateway: StandIn, logged_in: Profiles, leasehold: Run, error: ServiceError, code: int
) -> None:
    gateway.on("GET", "/v1/prices", error)
    exit_code, out, err = leasehold("prices")
    assert (exit_code, out) == (code, "")
    assert f"({error.code})" in err.splitlines()[0]
    assert "Traceback" not in err
    exit_code, out, err = leasehold("prices", "-o", "json")
    assert (exit_code, out) == (code, "")
    document = json.loads(err)
    assert (document["code"], document["exit_code"]) == (error.code, code)
    assert document.get("field", "") == error.details.get("field", "")


@pytest.mark.parametrize("status", [400, 404, 500])
def test_an_answer_that_is_no_problem_document_is_still_one_sentence(
    gateway: StandIn, logged_in: Profiles, leasehold: Run, status: int
) -> None:
    gateway.on("GET", "/v1/prices", Response(b"<html>", status))
    _, _, err = leasehold("prices")
    assert f"answered {status} (HTTP_{status})" in err


def test_something_else_at_the_address_is_noticed(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/prices", Response(b"<html>hello</html>"))
    assert "is no Leasehold gateway" in leasehold("prices")[2]


def test_a_token_is_kept_and_used_again(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/prices", {"prices": []})
    assert [leasehold("prices")[0] for _ in range(3)] == [0, 0, 0]
    assert gateway.tokens == 1


def test_a_token_about_to_expire_is_replaced(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/prices", {"prices": []})
    soon = int(time.time()) + 5
    logged_in.save_token("acme", Token("old", soon, CLIENT_ID, gateway.url))
    assert leasehold("prices")[0] == 0
    assert gateway.calls("GET", "/v1/prices")[0].headers["authorization"] != "Bearer old"


def test_a_token_of_another_gateway_is_not_sent(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/prices", {"prices": []})
    later = int(time.time()) + 500
    logged_in.save_token("acme", Token("theirs", later, CLIENT_ID, "https://elsewhere"))
    assert leasehold("prices")[0] == 0
    assert "Bearer theirs" not in {one.headers.get("authorization") for one in gateway.asked}


def test_a_refused_token_is_replaced_once_and_the_call_keeps_its_key(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/prices", {"prices": []})
    leasehold("prices")
    gateway.refuse_tokens_so_far()
    stop = f"/v1/workloads/{workload(1)['workload_id']}/stop"
    gateway.on("POST", stop, workload(1, state=RUNNING))
    assert leasehold("stop", workload(1)["workload_id"])[0] == 0
    first, second = gateway.calls("POST", stop)
    assert first.key == second.key
    assert gateway.tokens == 2


def test_a_wrong_secret_means_not_authenticated(
    gateway: StandIn, logged_in: Profiles, leasehold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("LEASEHOLD_CLIENT_SECRET", "wrong")
    code, _, err = leasehold("--gateway", gateway.url, "prices")
    assert code == Exit.UNAUTHENTICATED
    assert "(INVALID_CLIENT)" in err
    assert "wrong" not in err


def test_without_a_profile_one_is_told_how_to_get_one(leasehold: Run) -> None:
    code, out, err = leasehold("ps")
    assert (code, out) == (Exit.UNAUTHENTICATED, "")
    assert "leasehold signup" in err


@pytest.mark.parametrize(
    "url", ["", "localhost:7400", "ftp://localhost", "http://:80", "http://a.example", "http://x:y"]
)
def test_secrets_are_only_sent_where_they_may_be(url: str) -> None:
    with pytest.raises(Failure) as caught:
        checked_url(url)
    assert caught.value.exit_code == Exit.USAGE


@pytest.fixture
def patient(gateway: StandIn) -> Iterator[Client]:
    """A client for which pauses take no time."""
    client = Client(gateway.url, pause=lambda _: None)
    yield client
    client.close()
