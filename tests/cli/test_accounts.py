"""Signing up, logging in, and acting as somebody."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from chassis.errors import NotFound
from leasehold.cli.failures import Exit
from leasehold.cli.profiles import Profiles
from tests.cli.conftest import Run
from tests.cli.standin import CLIENT_ID, CLIENT_SECRET, TENANT_ID, StandIn

SIGNED_UP = {
    "tenant": {"tenant_id": TENANT_ID, "name": "acme", "status": "active", "projects": ["default"]},
    "client_id": CLIENT_ID,
    "client_secret": CLIENT_SECRET,
}
ENVELOPE = f"/v1/tenants/{TENANT_ID}/envelope"


def test_signing_up_keeps_the_credential_and_waits_for_the_account(
    home: Path, gateway: StandIn, leasehold: Run
) -> None:
    looks = iter([NotFound("not yet"), NotFound("not yet")])
    gateway.on("POST", "/v1/tenants", SIGNED_UP)
    gateway.on("GET", "/v1/balance", {"currency": "USD"})
    gateway.on("GET", ENVELOPE, lambda _: next(looks, {}))
    code, out, _ = leasehold("--gateway", gateway.url, "signup", "acme", "-o", "json")
    assert code == 0
    assert json.loads(out)["ready"] is True
    profile = Profiles(home).get("acme")
    assert (profile.client_secret, profile.tenant_id) == (CLIENT_SECRET, TENANT_ID)
    assert Profiles(home).current() == "acme"
    assert len(gateway.calls("GET", ENVELOPE)) == 3


def test_the_secret_is_not_shown(home: Path, gateway: StandIn, leasehold: Run) -> None:
    gateway.on("POST", "/v1/tenants", SIGNED_UP)
    gateway.on("GET", "/v1/balance", {})
    gateway.on("GET", ENVELOPE, {})
    for output in ("table", "json"):
        text = leasehold(
            *f"--gateway {gateway.url} signup acme --profile {output}".split(), "-o", output
        )
        assert CLIENT_SECRET not in "".join(text[1:])


def test_a_new_tenant_is_led_to_its_money(home: Path, gateway: StandIn, leasehold: Run) -> None:
    gateway.on("POST", "/v1/tenants", SIGNED_UP)
    gateway.on("GET", "/v1/balance", {})
    gateway.on("GET", ENVELOPE, {})
    signup = ["--gateway", gateway.url, "signup", "acme", "--profile"]
    *_, login, topup, use = leasehold(*signup, "first")[1].splitlines()
    assert [login, topup, use] == [
        "  leasehold login --operator",
        "  leasehold topup first 100",
        "  leasehold use first",
    ]
    assert "leasehold login --operator" in leasehold("cost", "--profile", "operator")[2]
    Profiles(home).save("operator", Profiles(home).get("first"))
    said = leasehold(*signup, "second")[1]
    assert said.endswith("leasehold topup second 100 --profile operator\n")


def test_a_profile_is_not_overwritten_by_signing_up(logged_in: Profiles, leasehold: Run) -> None:
    code, _, err = leasehold("signup", "acme")
    assert (code, "(PROFILE_EXISTS)" in err) == (Exit.NEGATIVE, True)


def test_a_secret_lost_on_the_way_is_said_to_be_lost(
    home: Path, gateway: StandIn, leasehold: Run
) -> None:
    gateway.on("POST", "/v1/tenants", {**SIGNED_UP, "client_secret": ""})
    code, _, err = leasehold("--gateway", gateway.url, "signup", "acme")
    assert (code, "(SECRET_LOST)" in err) == (Exit.UNAVAILABLE, True)
    assert Profiles(home).names() == []


def test_the_operator_logs_in_from_the_state_folder(
    home: Path, gateway: StandIn, leasehold: Run, tmp_path: Path
) -> None:
    credential = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    write_state(tmp_path, "operator.json", gateway_url=gateway.url, **credential)
    assert leasehold("login", "--operator")[0] == 0
    assert Profiles(home).current() == "operator"
    assert Profiles(home).get("operator").client_secret == CLIENT_SECRET


def test_without_a_platform_there_is_no_operator(leasehold: Run) -> None:
    code, _, err = leasehold("login", "--operator")
    assert code == Exit.UNAVAILABLE
    assert "leasehold up" in err


def test_the_environment_can_log_in_and_can_act_without(
    home: Path, gateway: StandIn, leasehold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("LEASEHOLD_CLIENT_SECRET", CLIENT_SECRET)
    monkeypatch.setenv("LEASEHOLD_GATEWAY", gateway.url)
    gateway.on("GET", "/v1/prices", {"prices": []})
    assert leasehold("prices")[0] == 0
    assert not home.exists(), "acting from the environment keeps nothing"
    assert leasehold("login", "--profile", "ci")[0] == 0
    assert Profiles(home).get("ci").tenant_id == TENANT_ID


def test_a_secret_may_come_from_standard_input(
    home: Path, gateway: StandIn, leasehold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_CLIENT_ID", CLIENT_ID)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{CLIENT_SECRET}\n"))
    assert leasehold("login", "--gateway", gateway.url)[0] == 0
    assert Profiles(home).get("default").client_secret == CLIENT_SECRET


def test_a_wrong_secret_is_not_kept(
    home: Path, gateway: StandIn, leasehold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_CLIENT_ID", CLIENT_ID)
    monkeypatch.setattr(sys, "stdin", io.StringIO("wrong\n"))
    assert leasehold("login", "--gateway", gateway.url)[0] == Exit.UNAUTHENTICATED
    assert Profiles(home).names() == []


def test_whoami_and_switching_profiles(
    gateway: StandIn, logged_in: Profiles, leasehold: Run
) -> None:
    gateway.on("GET", f"/v1/tenants/{TENANT_ID}", SIGNED_UP["tenant"])
    document = json.loads(leasehold("whoami", "-o", "json")[1])
    assert (document["profile"], document["role"]) == ("acme", "tenant_admin")
    assert document["tenant"]["name"] == "acme"
    logged_in.save("other", logged_in.get("acme"))
    assert leasehold("use", "acme")[0] == 0
    listed = json.loads(leasehold("profiles", "-o", "json")[1])["profiles"]
    assert {one["profile"]: one["in_use"] for one in listed} == {"acme": True, "other": False}
    assert leasehold("use", "nobody")[0] == Exit.UNAUTHENTICATED


def write_state(folder: Path, name: str, **content: Any) -> None:
    (folder / "state").mkdir(exist_ok=True)
    (folder / "state" / name).write_text(json.dumps(content))
