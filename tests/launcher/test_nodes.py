"""Simulated nodes: their GPUs, and how they come to their certificates."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from chassis import certificates, identity
from chassis.identity import Identity
from leasehold.launcher import nodes
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import free_base
from leasehold.launcher.settings import PlatformSettings
from leasehold.launcher.state import StateFolder


@pytest.mark.story
def test_a_node_joins_once_and_stays_the_same_node(home: Path) -> None:
    folder = home / "nodes" / "node-1"
    with_one_node(home)
    joined = Identity(folder / "identity")
    token = (folder / "join_token").read_text()
    assert (folder / "join_token").stat().st_mode & 0o077 == 0
    # A certificate that is still good is kept, and no token is asked for.
    with_one_node(home)
    assert (folder / "join_token").read_text() == token
    # One that ran out while the platform was down is replaced, under the same name.
    expire(home / "identity" / "node_ca", folder / "identity")
    with_one_node(home)
    assert (folder / "join_token").read_text() != token
    assert Identity(folder / "identity").uri == joined.uri


def test_a_machine_keeps_its_gpus(tmp_path: Path) -> None:
    nodes.prepare(tmp_path / "node-1", 8, "fleet")
    before = (tmp_path / "node-1" / "gpus.txt").read_text()
    nodes.prepare(tmp_path / "node-1", 4, "fleet")
    assert (tmp_path / "node-1" / "gpus.txt").read_text() == before
    nodes.prepare(tmp_path / "node-2", 8, "fleet")
    assert not uuids(tmp_path / "node-2") & uuids(tmp_path / "node-1")


def test_a_new_state_folder_has_new_gpus(tmp_path: Path) -> None:
    for state in (StateFolder(tmp_path / "old"), StateFolder(tmp_path / "new")):
        state.open()
        for _ in range(2):  # the second start changes nothing
            nodes.prepare(state / "node-1", 8, state.secret("fleet"))
        assert len(uuids(state / "node-1")) == 8
        state.close()
    assert not uuids(tmp_path / "old" / "node-1") & uuids(tmp_path / "new" / "node-1")


def test_without_a_compiler_the_plain_reader_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nodes.nvml(StateFolder(tmp_path)) == nodes.PYTHON_READER


def test_a_compiler_that_fails_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cc").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "cc").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nodes.nvml(StateFolder(tmp_path)) == nodes.PYTHON_READER


def uuids(folder: Path) -> set[str]:
    lines = (folder / "gpus.txt").read_text().splitlines()
    return {line.partition("=")[2] for line in lines if ".uuid=" in line}


def with_one_node(home: Path) -> None:
    """Up until everything is ready, and down again."""
    settings = PlatformSettings(state=home, port_base=free_base(), nodes=1)
    platform = Platform(settings)
    platform.start()
    platform.stop()


def expire(node_ca: Path, folder: Path) -> None:
    shown = Identity(folder).credentials()
    key = load_pem_private_key(shown.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    chain = identity.sign_request(node_ca, certificates.request_pem(key), shown.uri, -5)
    identity.write(folder, shown.key, chain, shown.trust)
