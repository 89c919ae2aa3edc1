"""Identities hold in real handshakes: what the node authority must not mint is refused."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from chassis import certificates, identity
from chassis.clock import SECOND, now
from chassis.errors import Invalid
from chassis.identity import Identity, UnusableIdentity
from tests.chassis.mesh import Mesh, outcome, raw_channel, serving

OK, UNAVAILABLE = grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE
DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    return Mesh(tmp_path)


def test_a_service_of_the_same_root_is_let_in(mesh: Mesh) -> None:
    assert called(mesh, mesh.service("admission")) is OK


def test_a_node_is_known_as_a_node_and_has_no_permission_of_a_service(mesh: Mesh) -> None:
    assert called(mesh, mesh.node("nod_1")) is DENIED


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://leasehold/svc/billing",
        "spiffe://leasehold/operator/root",
        "spiffe://leasehold/node/nod_1",
        "spiffe://nodes.leasehold.evil/node/nod_1",
        "spiffe://x.nodes.leasehold/node/nod_1",
        "spiffe://leasehold:x@nodes.leasehold/svc/billing",
    ],
)
def test_the_node_authority_cannot_mint_a_name_outside_its_domain(mesh: Mesh, uri: str) -> None:
    assert called(mesh, mesh.minted(uri)) is UNAVAILABLE


@pytest.mark.parametrize("path", ["svc/admission", "operator/root", "finance/anna", "node/a/b"])
def test_a_name_of_the_node_domain_is_a_node_or_nobody(mesh: Mesh, path: str) -> None:
    assert called(mesh, mesh.minted(f"spiffe://nodes.leasehold/{path}")) is DENIED


@pytest.mark.parametrize("names", ["dns", "dns and uri", "common name"])
def test_the_node_authority_cannot_mint_a_server(mesh: Mesh, names: str) -> None:
    async def scenario() -> grpc.StatusCode:
        async with serving(impostor(mesh, names)) as server:
            channel = raw_channel(server.port, mesh.service("admission"), trust(mesh))
            async with channel:
                return await outcome(channel)

    assert asyncio.run(scenario()) is UNAVAILABLE


def test_the_node_authority_cannot_make_another_authority(mesh: Mesh) -> None:
    assert called(mesh, grandchild(mesh)) is UNAVAILABLE


def test_strangers_are_refused_in_the_handshake(mesh: Mesh, tmp_path: Path) -> None:
    other = Mesh(tmp_path / "other")
    assert called(mesh, other.service("admission")) is UNAVAILABLE
    assert called(mesh, None) is UNAVAILABLE
    assert called(mesh, mesh.service("admission", seconds=-1)) is UNAVAILABLE


def test_a_client_insists_on_the_name_of_the_server(mesh: Mesh) -> None:
    assert called(mesh, mesh.service("admission"), name="placement") is UNAVAILABLE


def test_the_authority_writes_the_names_and_ignores_those_requested(mesh: Mesh) -> None:
    key = certificates.new_key()
    wanted = x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier("spiffe://leasehold/svc/billing"), x509.DNSName("billing")]
    )
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "billing")]))
        .add_extension(wanted, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=3), critical=True)
        .sign(key, SHA256())
    )
    chain = identity.sign_request(
        mesh.folder / "node_ca",
        request.public_bytes(Encoding.PEM),
        "spiffe://nodes.leasehold/node/nod_9",
        600,
    )
    leaf, issuer = x509.load_pem_x509_certificates(chain)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == ["spiffe://nodes.leasehold/node/nod_9"]
    assert leaf.subject == x509.Name([])
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    leaf.verify_directly_issued_by(issuer)


def test_a_request_must_be_signed_with_its_own_key(mesh: Mesh) -> None:
    for request in (b"", b"nonsense", forged_request(), rsa_request(), other_curve_request()):
        with pytest.raises(Invalid) as refused:
            identity.sign_request(mesh.folder / "node_ca", request, "spiffe://x/y/z", 600)
        assert refused.value.code == "CSR"


def test_certificates_are_backdated_a_minute_and_end_with_their_authority(mesh: Mesh) -> None:
    mesh.service("billing", seconds=3600)
    leaf = certificate(mesh.folder / "billing")
    assert abs(datetime.now(UTC) - leaf.not_valid_before_utc - timedelta(minutes=1)) < timedelta(
        seconds=10
    )
    mesh.person("spiffe://leasehold/operator/o", "o", seconds=100 * 365 * 24 * 3600)
    assert (
        certificate(mesh.folder / "o").not_valid_after_utc
        == certificate(mesh.folder / "root").not_valid_after_utc
    )


def test_keys_are_for_their_owner_only(mesh: Mesh) -> None:
    mesh.service("billing")
    for folder in ("root", "node_ca", "billing"):
        assert (mesh.folder / folder / "key.pem").stat().st_mode & 0o777 == 0o600
    (mesh.folder / "billing" / "key.pem").chmod(0o644)
    with pytest.raises(UnusableIdentity, match="can be read by others"):
        Identity(mesh.folder / "billing")


def test_a_root_is_never_replaced(mesh: Mesh) -> None:
    with pytest.raises(FileExistsError):
        identity.create_root(mesh.folder / "root")


def test_an_empty_folder_is_no_identity(tmp_path: Path) -> None:
    with pytest.raises(UnusableIdentity):
        Identity(tmp_path)


def test_a_renewed_certificate_is_noticed_without_a_restart(mesh: Mesh) -> None:
    billing = mesh.service("billing")
    first = billing.credentials()
    assert billing.credentials() is first
    mesh.service("billing", seconds=7200)
    second = billing.credentials()
    assert (second.generation, second.uri) == (2, first.uri)
    assert second.key != first.key
    assert second.expires_at > first.expires_at


def test_a_half_written_renewal_leaves_the_old_identity_in_force(mesh: Mesh) -> None:
    billing = mesh.service("billing")
    first = billing.credentials()
    mesh.service("admission")
    foreign = (mesh.folder / "admission" / "cert.pem").read_bytes()
    for content in (foreign, b"", b"nonsense"):
        (mesh.folder / "billing" / "cert.pem").write_bytes(content)
        assert billing.credentials() is first
    os.remove(mesh.folder / "billing" / "cert.pem")
    assert billing.credentials() is first


def test_renewal_is_due_around_half_of_the_life(mesh: Mesh) -> None:
    due = [mesh.service(f"s{number}", seconds=3600).credentials().renew_at for number in range(20)]
    assert all(0.35 * 3600 * SECOND < at - now() < 0.65 * 3600 * SECOND for at in due)
    assert len(set(due)) > 5
    assert not mesh.service("fresh").needs_renewal()
    assert mesh.service("old", seconds=1).needs_renewal()


def called(mesh: Mesh, shown: Identity | None, name: str = "billing") -> grpc.StatusCode:
    async def scenario() -> grpc.StatusCode:
        async with (
            serving(mesh.service("billing")) as server,
            raw_channel(server.port, shown, trust(mesh), name) as channel,
        ):
            return await outcome(channel)

    return asyncio.run(scenario())


def trust(mesh: Mesh) -> bytes:
    return (mesh.folder / "root" / "cert.pem").read_bytes()


def certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())


def impostor(mesh: Mesh, names: str) -> Identity:
    """A certificate for a server, signed with the node authority's key."""
    wanted: list[x509.GeneralName] = []
    if "uri" in names:
        wanted.append(x509.UniformResourceIdentifier("spiffe://nodes.leasehold/node/nod_1"))
    if "dns" in names:
        wanted.append(x509.DNSName("billing"))
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, "billing")] if "common" in names else []
    return signed_by_node_ca(mesh, "impostor", x509.Name(subject), wanted)


def signed_by_node_ca(
    mesh: Mesh, folder: str, subject: x509.Name, names: list[x509.GeneralName]
) -> Identity:
    ca_key, ca = identity._authority(mesh.folder / "node_ca")
    key = certificates.new_key()
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = certificates._certificate(
        subject, ca.subject, key.public_key(), datetime.now(UTC) + timedelta(hours=1)
    ).add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    chain = builder.sign(ca_key, SHA256()).public_bytes(Encoding.PEM)
    chain += ca.public_bytes(Encoding.PEM)
    identity.write(mesh.folder / folder, certificates.key_pem(key), chain, trust(mesh))
    return Identity(mesh.folder / folder)


def grandchild(mesh: Mesh) -> Identity:
    """A node named by an authority that the node authority made."""
    ca_key, ca = identity._authority(mesh.folder / "node_ca")
    second_key = certificates.new_key()
    second = certificates._authority(
        certificates._name("second"), ca.subject, second_key, path_length=0, days=1
    ).sign(ca_key, SHA256())
    key = certificates.new_key()
    leaf = certificates.leaf_certificate(
        second_key, second, key.public_key(), "spiffe://nodes.leasehold/node/nod_1", (), 3600
    )
    chain = b"".join(one.public_bytes(Encoding.PEM) for one in (leaf, second, ca))
    identity.write(mesh.folder / "grandchild", certificates.key_pem(key), chain, trust(mesh))
    return Identity(mesh.folder / "grandchild")


def forged_request() -> bytes:
    """One request's contents under the signature of another."""
    first, second = (
        x509.load_pem_x509_csr(identity.new_key_and_request()[1]).public_bytes(Encoding.DER)
        for _ in range(2)
    )
    mixed = first.replace(
        x509.load_der_x509_csr(first).signature, x509.load_der_x509_csr(second).signature
    )
    try:
        return x509.load_der_x509_csr(mixed).public_bytes(Encoding.PEM)
    except ValueError:  # the two signatures differed in length
        return forged_request()


def rsa_request() -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return request.sign(key, SHA256()).public_bytes(Encoding.PEM)


def other_curve_request() -> bytes:
    return certificates.request_pem(ec.generate_private_key(ec.SECP384R1()))
