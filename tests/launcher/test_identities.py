"""The platform's certificates: made once, renewed in time, each under its own name."""

from pathlib import Path

import pytest

from chassis import identity
from chassis.identity import Identity
from leasehold.launcher.identities import Identities
from leasehold.launcher.ports import SERVICES


def test_everybody_gets_a_name_and_nobody_twice(tmp_path: Path) -> None:
    made = Identities(tmp_path).ensure()
    assert made == ["node_ca", *SERVICES, "operator"]
    assert Identity(tmp_path / "billing").uri == "spiffe://leasehold/svc/billing"
    assert Identity(tmp_path / "operator").uri == "spiffe://leasehold/operator/local"
    assert Identities(tmp_path).ensure() == []


def test_a_certificate_past_half_its_life_is_renewed_by_the_same_root(tmp_path: Path) -> None:
    identities = Identities(tmp_path)
    identities.ensure()
    before = Identity(tmp_path / "billing").credentials()
    # Valid since a minute ago and for 20 seconds more: well past the half.
    uri = "spiffe://leasehold/svc/billing"
    identity.issue(tmp_path / "root", tmp_path / "billing", uri, ("billing",), 20)
    assert identities.ensure() == ["billing"]
    after = Identity(tmp_path / "billing").credentials()
    assert after.trust == before.trust
    assert after.uri == before.uri
    assert after.expires_at >= before.expires_at


@pytest.mark.parametrize("name", ["root", "node_ca", "billing", "operator"])
def test_keys_are_private(tmp_path: Path, name: str) -> None:
    Identities(tmp_path).ensure()
    assert (tmp_path / name / "key.pem").stat().st_mode & 0o077 == 0


def test_what_a_killed_launcher_wrote_by_half_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "key.pem").write_text("half a")
    Identities(tmp_path).ensure()
    (tmp_path / "billing" / "key.pem").write_bytes((tmp_path / "gateway/key.pem").read_bytes())
    assert Identities(tmp_path).ensure() == ["billing"]
