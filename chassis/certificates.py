"""The shapes of our certificates: trust root, node authority, leaf. Nothing here touches a disk.

The node authority is an intermediate that can only make clients of the trust domain
``nodes.leasehold``. The TLS library of every peer enforces it, so whoever steals its key cannot
become a service. Both halves are needed: a constraint on URIs alone leaves DNS names open, and
with a DNS name a thief could pose as a server.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from chassis.errors import Invalid

NODES_HOST = "nodes.leasehold"

_ROOT_DAYS = 3650
_NODE_CA_DAYS = 30
# A peer whose clock is a little behind ours must not find a new certificate "not yet valid".
_BACKDATED = timedelta(seconds=60)
_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
_SERVER = ExtendedKeyUsageOID.SERVER_AUTH

Key = ec.EllipticCurvePrivateKey


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def root_certificate(key: Key) -> x509.Certificate:
    name = _name("leasehold root")
    return _authority(name, name, key, path_length=1, days=_ROOT_DAYS).sign(key, SHA256())


def node_ca_certificate(root_key: Key, root: x509.Certificate, key: Key) -> x509.Certificate:
    only_nodes = [x509.UniformResourceIdentifier(NODES_HOST), x509.DNSName(NODES_HOST)]
    name = _name("leasehold nodes")
    return (
        _authority(name, root.subject, key, path_length=0, days=_NODE_CA_DAYS)
        .add_extension(x509.NameConstraints(only_nodes, None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_CLIENT]), critical=False)
        .sign(root_key, SHA256())
    )


def leaf_certificate(
    ca_key: Key,
    ca: x509.Certificate,
    public_key: ec.EllipticCurvePublicKey,
    uri: str,
    dns_names: tuple[str, ...],
    seconds: int,
) -> x509.Certificate:
    """Only a leaf with a DNS name can serve; none outlives its authority."""
    names = [x509.UniformResourceIdentifier(uri), *map(x509.DNSName, dns_names)]
    until = min(_now() + timedelta(seconds=seconds), ca.not_valid_after_utc)
    usages = [_CLIENT, _SERVER] if dns_names else [_CLIENT]
    return (
        _certificate(x509.Name([]), ca.subject, public_key, until)
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(leaf=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, SHA256())
    )


def requested_key(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a request that proves it holds it. Nothing else in a request counts."""
    try:
        request = x509.load_pem_x509_csr(csr_pem)
        key, proven = request.public_key(), request.is_signature_valid
    except Exception as error:  # the parser raises many kinds for hostile input
        raise Invalid("the certificate request cannot be read", code="CSR") from error
    if not proven:
        raise Invalid("the certificate request is not signed with its own key", code="CSR")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Invalid("the certificate request is not for a P-256 key", code="CSR")
    return key


def request_pem(key: Key) -> bytes:
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return request.sign(key, SHA256()).public_bytes(Encoding.PEM)


def _authority(
    name: x509.Name, issuer: x509.Name, key: Key, *, path_length: int, days: int
) -> x509.CertificateBuilder:
    public_key = key.public_key()
    return (
        _certificate(name, issuer, public_key, _now() + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_usage(leaf=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _certificate(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(_now(), until) - _BACKDATED)
        .not_valid_after(until)
    )


def _usage(*, leaf: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=leaf,
        key_cert_sign=not leaf,
        crl_sign=not leaf,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _now() -> datetime:
    return datetime.now(UTC)
