"""Nodes: who may join, who may join again, and who is kept apart."""

import pytest

from chassis.errors import Denied, Refused
from placement.policy import Evidence, HoldRefusal, QuarantineCause, RunState
from tests.placement.fleet import SECOND, Fleet, evidence, gpu


def test_a_node_joins_with_its_token_and_is_offered() -> None:
    fleet = Fleet()
    fleet.invite("nod_a", "token")
    assert fleet.hold("lse_1_1").refusal is HoldRefusal.NEVER_FITS
    joined = fleet.show("token", evidence("nod_a"))
    assert (joined.node_id, joined.quarantine) == ("nod_a", None)
    assert fleet.topics("nod_a") == ["token_issued", "joined"]
    assert fleet.hold("lse_1_1", 8).refusal is None


@pytest.mark.parametrize(
    ("token", "wait_seconds", "key", "code"),
    [
        ("other", 0, "key-2", "TOKEN_UNKNOWN"),
        ("used", 0, "key-2", "TOKEN_USED"),
        ("used", 601, "key-2", "TOKEN_USED"),  # used and expired: used comes first
        ("used", 601, "key-nod_a", "TOKEN_EXPIRED"),
        ("fresh", 601, "key-2", "TOKEN_EXPIRED"),
        ("replaced", 0, "key-2", "TOKEN_USED"),
    ],
)
def test_a_token_works_once_and_for_a_while(
    token: str, wait_seconds: int, key: str, code: str
) -> None:
    fleet = Fleet()
    fleet.invite("nod_a", "used")
    fleet.show("used", evidence("nod_a"))
    fleet.invite("nod_b", "replaced")
    fleet.invite("nod_b", "fresh")
    fleet.wait(wait_seconds * SECOND)
    before = fleet.placement.state()
    with pytest.raises(Denied) as error:
        fleet.show(token, evidence("nod_x", key_sha256=key))
    assert error.value.code == code
    assert fleet.placement.state() == before


def test_a_join_whose_answer_was_lost_may_be_repeated_with_the_same_key() -> None:
    fleet = Fleet()
    fleet.invite("nod_a", "token")
    first = fleet.show("token", evidence("nod_a"))
    assert fleet.show("token", evidence("nod_a")) == first
    assert fleet.topics("nod_a") == ["token_issued", "joined"]


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        (evidence("nod_a", gpus=0), "NO_GPUS"),
        (evidence("nod_a", gpus=(gpu(0, "u"), gpu(1, "u"))), "GPU_TWICE"),
        (evidence("nod_a", simulated=True), "SIMULATED"),
    ],
)
def test_evidence_that_is_not_accepted_leaves_the_token_unused(shown: Evidence, code: str) -> None:
    fleet = Fleet()
    fleet.placement.allow_simulated = False
    fleet.invite("nod_a", "token")
    with pytest.raises(Refused) as error:
        fleet.show("token", shown)
    assert error.value.code == code
    assert fleet.show("token", evidence("nod_a")).quarantine is None


def test_two_nodes_with_one_gpu_are_both_quarantined() -> None:
    fleet = Fleet("nod_a", "nod_c")
    fleet.invite("nod_b", "token")
    clash = evidence("nod_b", gpus=(gpu(0, "GPU-nod_a-3"), gpu(1, "GPU-own")))
    assert fleet.show("token", clash).quarantine is QuarantineCause.GPU_CLAIMED_TWICE
    assert fleet.topics("nod_a")[-1] == fleet.topics("nod_b")[-1] == "quarantined"
    assert fleet.placement.nodes.statuses["nod_c"] == "ready"
    for node_id in ("nod_a", "nod_b"):
        with pytest.raises(Denied) as error:
            fleet.placement.require_member(node_id)
        assert error.value.code == "NODE_QUARANTINED"
    [first, second] = [fleet.hold(f"lse_{n}_1", 8) for n in range(2)]
    assert (first.refusal, second.refusal) == (None, HoldRefusal.CAPACITY)


def test_a_repeated_join_of_a_quarantined_node_is_quarantined_again() -> None:
    fleet = Fleet("nod_a")
    fleet.invite("nod_b", "token")
    clash = evidence("nod_b", gpus=(gpu(0, "GPU-nod_a-3"),))
    first = fleet.show("token", clash)
    assert fleet.show("token", clash) == first
    assert fleet.topics("nod_b") == ["token_issued", "joined", "quarantined"]


def test_a_quarantined_node_leaves_quarantine_by_a_new_token_without_the_clash() -> None:
    fleet = Fleet("nod_a")
    fleet.invite("nod_b", "token")
    fleet.show("token", evidence("nod_b", gpus=(gpu(0, "GPU-nod_a-0"),)))
    assert fleet.join("nod_a").quarantine is None
    assert fleet.hold("lse_1_1", 8).refusal is None
    fleet.invite("nod_b", "again")
    clash = fleet.show("again", evidence("nod_b", gpus=(gpu(0, "GPU-nod_a-0"),)))
    assert clash.quarantine is QuarantineCause.GPU_CLAIMED_TWICE


def test_a_gpu_with_a_running_lease_is_not_handed_to_another_node() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1", 8)
    claim = evidence("nod_b", gpus=(gpu(0, "GPU-nod_a-0"),))
    for token in ("first", "second"):
        fleet.invite("nod_b", token)
        assert fleet.show(token, claim).quarantine is QuarantineCause.GPU_CLAIMED_TWICE
    fleet.report("lse_1_1", RunState.RUNNING, 5)
    assert fleet.status("lse_1_1")["status"] == "active", "its lease runs on"


def test_a_node_whose_certificate_expired_joins_again_and_keeps_its_leases() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1", 3)
    fleet.invite("nod_a", "again")
    assert fleet.show("again", evidence("nod_a", key_sha256="new")).quarantine is None
    assert fleet.placement.slots.free_count("nod_a") == 5
    assert [order.lease_id for order in fleet.sync("nod_a").orders] == ["lse_1_1"]


def test_a_node_may_change_its_gpus_but_not_under_a_lease() -> None:
    fleet = Fleet("nod_a", gpus=2)
    fleet.lease("lse_1_1", 1)
    other = (gpu(0, "GPU-nod_a-0"), gpu(1, "GPU-new"), gpu(2, "GPU-more"))
    fleet.invite("nod_a", "grown")
    assert fleet.show("grown", evidence("nod_a", gpus=other)).quarantine is None
    assert fleet.placement.slots.free_count("nod_a") == 2
    fleet.invite("nod_a", "swapped")
    swapped = evidence("nod_a", gpus=(gpu(0, "GPU-new"), gpu(1, "GPU-nod_a-0")))
    assert fleet.show("swapped", swapped).quarantine is QuarantineCause.EVIDENCE_CHANGED


def test_a_hold_on_a_node_that_was_quarantined_is_bound_elsewhere() -> None:
    fleet = Fleet("nod_a", "nod_b")
    fleet.hold("lse_1_1", 2)
    assert fleet.status("lse_1_1")["node_id"] == "nod_a"
    fleet.invite("nod_c", "token")
    fleet.show("token", evidence("nod_c", gpus=(gpu(0, "GPU-nod_a-0"),)))
    fleet.bind("lse_1_1", 2)
    assert fleet.status("lse_1_1")["node_id"] == "nod_b"


def test_a_reboot_is_recorded_once() -> None:
    fleet = Fleet("nod_a")
    for boot_id in ("boot-1", "boot-2", "boot-2"):
        fleet.sync("nod_a", boot_id=boot_id)
    assert [rebooted["boot_id"] for rebooted in fleet.facts("node.rebooted")] == ["boot-2"]


def test_an_unknown_node_is_nobody() -> None:
    with pytest.raises(Denied) as error:
        Fleet().placement.require_member("nod_x")
    assert error.value.code == "NODE_UNKNOWN"
