"""Tenants, from their rules outward: policy, aggregate, views, replay, contract."""

import hashlib

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import Invalid, NotFound, Refused
from chassis.events import event_classes
from chassis.memory import Direct, MemoryLog
from gateway import policy
from gateway.application import Gateway
from gateway.domain import Tenant
from gateway.policy import SECOND, Rate, passage
from leasehold.gateway.v1 import tenant_events_pb2

NOON = 1_767_268_800_000_000
ACME = "ten_acme"
ADMIN, USER = "cli_admin", "cli_user"
HASH = hashlib.sha256(b"secret").hexdigest()


@pytest.mark.parametrize("name", ["acme", "a", "0", "a-b", "x" * 63])
def test_a_plain_name_is_accepted(name: str) -> None:
    assert policy.is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "-a", "a-", "Acme", "a_b", "a b", "a/b", "ä", "а", "a\n", "a\0", "x" * 64, "../etc"],
)
def test_any_other_name_is_refused(name: str) -> None:
    assert not policy.is_name(name)
    with pytest.raises(Invalid) as refusal:
        Tenant.sign_up(ACME, name, "default", at=NOON)
    assert (refusal.value.code, refusal.value.details) == ("NAME", {"field": "name"})


def test_a_signed_up_tenant_has_a_project_and_an_admin_and_no_secret_is_kept() -> None:
    log, gateway, _ = signed_up()
    assert gateway.has_project(ACME, "default")
    credential = gateway.credential(ADMIN)
    assert credential is not None
    assert (credential.tenant_id, credential.role, credential.active) == (ACME, "admin", True)
    assert all(b"secret" not in row.data.replace(b"secret_sha256", b"") for row in log.events)
    assert [row.tenant_id for row in log.events] == [ACME, ACME]


def test_a_suspended_tenant_may_not_act_until_it_is_resumed() -> None:
    _, gateway, run = signed_up()
    run(lambda: gateway.suspend(ACME, "unpaid", at=NOON))
    assert [gateway.credential(ADMIN).active, gateway.tenant(ACME).status] == [False, "suspended"]
    run(lambda: gateway.resume(ACME, at=NOON))
    assert [gateway.credential(ADMIN).active, gateway.tenant(ACME).status] == [True, "active"]


def test_what_is_so_already_is_not_recorded_again() -> None:
    log, gateway, run = signed_up()
    run(lambda: gateway.open_project(ACME, "default", at=NOON))
    run(lambda: gateway.resume(ACME, at=NOON))
    run(lambda: gateway.suspend(ACME, "unpaid", at=NOON))
    run(lambda: gateway.suspend(ACME, "unpaid again", at=NOON))
    assert [row.topic for row in log.events[2:]] == ["gateway.tenant.suspended"]


def test_a_revoked_credential_is_gone_and_the_last_admin_stays() -> None:
    _, gateway, run = signed_up()
    run(lambda: gateway.issue_credential(ACME, "user", client_id=USER, secret_sha256=HASH, at=NOON))
    with pytest.raises(Refused) as refusal:
        run(lambda: gateway.revoke_credential(ACME, ADMIN, at=NOON))
    assert refusal.value.code == "LAST_ADMIN"
    run(lambda: gateway.revoke_credential(ACME, USER, at=NOON))
    assert gateway.credential(USER) is None
    with pytest.raises(NotFound):
        run(lambda: gateway.revoke_credential(ACME, USER, at=NOON))


def test_there_is_an_end_to_projects_and_credentials() -> None:
    _, gateway, run = signed_up()
    for number in range(1, policy.PROJECTS_MAX):
        run(lambda number=number: gateway.open_project(ACME, f"p{number}", at=NOON))
    with pytest.raises(Refused, match="at most 100 projects"):
        run(lambda: gateway.open_project(ACME, "one-more", at=NOON))
    tenant = gateway.tenant(ACME)
    tenant.credentials = {f"cli_{n}": "user" for n in range(policy.CREDENTIALS_MAX)}
    with pytest.raises(Refused, match="at most 50 credentials"):
        tenant.issue_credential("cli_x", HASH, "user", at=NOON)


@pytest.mark.parametrize("role", ["operator", "tenant_admin", "", "Admin"])
def test_only_a_tenants_own_roles_can_be_issued(role: str) -> None:
    _, gateway, run = signed_up()
    with pytest.raises(Invalid) as refusal:
        run(lambda: gateway.issue_credential(ACME, role, client_id=USER, secret_sha256=HASH, at=1))
    assert refusal.value.code == "ROLE"


def test_replay_gives_the_same_state_byte_for_byte() -> None:
    log, gateway, _ = eventful()
    rebuilt = Gateway(log)
    rebuilt.catch_up()
    assert rebuilt.state() == gateway.state()


def test_every_event_is_its_protobuf_message() -> None:
    log, _, _ = eventful()
    assert {row.topic for row in log.events} == {
        kind.TOPIC
        for kind in event_classes([Tenant])  # type: ignore[attr-defined]
    }
    for row in log.events:
        words = row.topic.removeprefix("gateway.").replace(".", "_").split("_")
        message = getattr(tenant_events_pb2, "".join(word.title() for word in words))()
        json_format.Parse(row.data, message)
        assert message.meta.topic == row.topic


def test_a_burst_passes_and_then_the_rate_holds() -> None:
    rate, due, passed = Rate(per_second=100, burst=20), 0, 0
    for millisecond in range(10_000):
        due, wait = passage(rate, due, millisecond * 1000)
        passed += wait == 0
    assert passed == 100 * 10 + 20 - 1


@given(
    st.integers(1, 1000),
    st.integers(1, 100),
    st.lists(st.integers(0, SECOND), min_size=1, max_size=200),
)
def test_no_window_holds_more_than_the_burst_and_the_rate(
    per_second: int, burst: int, pauses: list[int]
) -> None:
    rate, due, at, passed = Rate(per_second, burst), 0, NOON, []
    for pause in pauses:
        at += pause
        due, wait = passage(rate, due, at)
        if not wait:
            passed.append(at)
        else:
            assert passage(rate, due, at + wait)[1] == 0, "the wait that is told is enough"
    interval = SECOND // per_second
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + (passed[last] - start) // interval + 1


def signed_up() -> tuple[MemoryLog, Gateway, Direct]:
    log = MemoryLog()
    gateway = Gateway(log)
    run = Direct(gateway, log)
    run(
        lambda: gateway.sign_up(
            ACME, "acme", "default", client_id=ADMIN, secret_sha256=HASH, at=NOON
        )
    )
    return log, gateway, run


def eventful() -> tuple[MemoryLog, Gateway, Direct]:
    """A tenant to which everything has happened."""
    log, gateway, run = signed_up()
    run(lambda: gateway.open_project(ACME, "vision", at=NOON + 1))
    run(lambda: gateway.issue_credential(ACME, "user", client_id=USER, secret_sha256=HASH, at=NOON))
    run(lambda: gateway.revoke_credential(ACME, USER, at=NOON + 2))
    run(lambda: gateway.suspend(ACME, "unpaid", at=NOON + 3))
    run(lambda: gateway.resume(ACME, at=NOON + 4))
    return log, gateway, run
