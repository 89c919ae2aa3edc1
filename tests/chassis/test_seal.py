"""Seals: what a certificate of ours says about a place in a log, and every way it may not."""

from dataclasses import replace
from pathlib import Path

import pytest

from chassis import canonical, seal
from chassis.clock import SECOND, now
from chassis.envelope import SEAL, SEALER, Envelope, Origin, headers, opened
from chassis.events import Recorded
from chassis.identity import Identity
from chassis.seal import Standing
from chassis.unsealed import WAIT_SECONDS, Unsealed
from tests.chassis.mesh import Mesh

ORIGIN = Origin("depot", 0, "db-1")
HOUR = 3600
SERVICE = "spiffe://leasehold/svc/depot"


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    return Mesh(tmp_path / "ours")


@pytest.fixture
def depot(mesh: Mesh) -> Identity:
    return mesh.service("depot")


def test_the_source_s_own_seal_is_good(depot: Identity) -> None:
    assert worth(message(1, depot), depot) is Standing.GOOD


def test_a_seal_is_good_under_each_root_of_a_bundle(mesh: Mesh, tmp_path: Path) -> None:
    depot, next_root = mesh.service("depot"), Mesh(tmp_path / "next").service("depot")
    bundle = next_root.credentials().trust + depot.credentials().trust
    for sealer in (depot, next_root):
        assert seal.standing("depot", message(1, sealer), bundle, now()) is Standing.GOOD


@pytest.mark.parametrize("moved", ["position", "hash", "incarnation", "service", "shard"])
def test_a_seal_is_good_at_its_own_place_only(mesh: Mesh, moved: str) -> None:
    depot = mesh.service("depot")
    event, origin = an_event(1), ORIGIN
    if moved == "position":
        event = event._replace(position=2)
    elif moved == "hash":
        event = event._replace(hash=bytes(32))
    elif moved == "incarnation":
        origin = replace(origin, incarnation="db-2")
    elif moved == "service":
        origin = replace(origin, service="ledger")
    else:
        origin = replace(origin, shard=1)
    elsewhere = seal.sign(depot.credentials(), origin, event)
    assert worth(message(1, depot, **elsewhere), depot) is Standing.BAD


def test_nobody_else_can_seal(mesh: Mesh, depot: Identity, tmp_path: Path) -> None:
    others = {
        "another service": mesh.service("gateway"),
        "an operator": mesh.person("spiffe://leasehold/operator/depot", "operator"),
        "a name that begins alike": mesh.person(f"{SERVICE}/0", "longer"),
        "a node": mesh.node("nod_1"),
        "the node authority under our name": mesh.minted(SERVICE),
        "the node authority itself": Identity(mesh.folder / "node_ca"),
        "a foreign root": Mesh(tmp_path / "foreign").service("depot"),
        "the foreign root itself": Identity(tmp_path / "foreign" / "root"),
    }
    for who, other in others.items():
        assert worth(message(1, other), depot) is Standing.BAD, who
        # Nor with the right certificate, which is no secret, but another key.
        shown = message(1, other, **{SEALER: message(1, depot).sealer})
        assert worth(shown, depot) is Standing.BAD, who


def test_a_certificate_counts_while_it_is_valid_and_the_difference_of_two_clocks(
    depot: Identity,
) -> None:
    sealed = message(1, depot)
    ends = depot.expires_at
    begins = ends - HOUR * SECOND
    for at, standing in [
        (begins, Standing.GOOD),
        (begins - 600 * SECOND, Standing.OUTDATED),
        (ends + 30 * SECOND, Standing.GOOD),
        (ends + 90 * SECOND, Standing.OUTDATED),
    ]:
        assert seal.standing("depot", sealed, depot.credentials().trust, at) is standing


def test_a_forgery_is_bad_however_old_its_certificate(mesh: Mesh, depot: Identity) -> None:
    expired = mesh.person("spiffe://leasehold/svc/gateway", "expired", seconds=-HOUR)
    assert worth(message(1, expired), depot) is Standing.BAD


@pytest.mark.parametrize("damage", ["", "AAAA", "no base64", "é", "A" * 100_000])
@pytest.mark.parametrize("name", [SEAL, SEALER])
def test_a_damaged_seal_is_bad(depot: Identity, name: str, damage: str) -> None:
    assert worth(message(1, depot, **{name: damage}), depot) is Standing.BAD


def test_a_message_without_a_seal_has_none(depot: Identity) -> None:
    assert worth(message(1), depot) is Standing.NONE


def test_one_good_seal_speaks_for_all_before_it(mesh: Mesh, depot: Identity) -> None:
    run = [message(1), message(2, mesh.service("gateway")), message(3, depot), message(4)]
    unsealed = waiting(*run)
    judged = unsealed.judge(depot.credentials().trust, now())
    assert [event.position for event in judged.believed] == [1, 2, 3]
    assert (judged.bad, judged.in_doubt) == (0, False)
    assert [event.position for event in unsealed.forget()] == [4]


def test_what_a_bad_seal_is_on_and_what_follows_is_not_believed(mesh: Mesh) -> None:
    depot, gateway = mesh.service("depot"), mesh.service("gateway")
    unsealed = waiting(message(1, depot), message(2), message(3, gateway), message(4))
    judged = unsealed.judge(depot.credentials().trust, now())
    assert [event.position for event in judged.believed] == [1]
    assert (judged.bad, judged.in_doubt) == (1, True)


def test_an_outdated_seal_is_for_the_owner_to_settle_and_no_alarm(mesh: Mesh) -> None:
    depot = mesh.person(SERVICE, "depot", seconds=-HOUR)
    judged = waiting(message(1, depot)).judge(depot.credentials().trust, now())
    assert (judged.believed, judged.bad, judged.in_doubt) == ([], 0, True)


def test_a_message_waits_for_its_seal_only_so_long(depot: Identity) -> None:
    trust, at = depot.credentials().trust, now()
    unsealed = Unsealed("depot")
    unsealed.add(message(1), at)
    unsealed.add(message(2), at + WAIT_SECONDS * SECOND)
    assert not unsealed.judge(trust, at + WAIT_SECONDS * SECOND).in_doubt
    assert unsealed.judge(trust, at + WAIT_SECONDS * SECOND + 1).in_doubt
    unsealed.add(message(3, depot), at + 2 * WAIT_SECONDS * SECOND)
    unsealed.add(message(4), at + 2 * WAIT_SECONDS * SECOND)
    judged = unsealed.judge(trust, at + 2 * WAIT_SECONDS * SECOND)
    assert (len(judged.believed), judged.in_doubt) == (3, False)


def worth(shown: Envelope, ours: Identity) -> Standing:
    return seal.standing("depot", shown, ours.credentials().trust, now())


def waiting(*run: Envelope) -> Unsealed:
    unsealed = Unsealed("depot")
    for one in run:
        unsealed.add(one, now())
    return unsealed


def message(position: int, sealer: Identity | None = None, **changed: str) -> Envelope:
    """As it arrives, with its seal or without."""
    event = an_event(position)
    sealed = seal.sign(sealer.credentials(), ORIGIN, event) if sealer else {}
    return opened("depot", headers(ORIGIN, event) | sealed | changed, event.data)


def an_event(position: int) -> Recorded:
    meta = {
        "aggregate_id": "shf_1",
        "at": 1,
        "correlation_id": "",
        "tenant_id": "",
        "topic": "depot.shelf.stocked",
        "version": position,
    }
    data = canonical.dumps({"goods": position, "meta": meta})
    hash_ = canonical.chained(canonical.GENESIS, data)
    return Recorded(position, "shf_1", position, "depot.shelf.stocked", "", "", "", data, hash_)
