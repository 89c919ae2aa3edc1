"""A service's signature over a place in its log: what makes a message on the bus believable. Pure.

Whoever holds a bus password can continue a hash chain; only the holder of the service's key can
seal it. The hash covers everything before it, so one good seal speaks for all events up to its
own. The signed text names service, shard, position, hash and incarnation: a seal that could be
moved to another place would be worth nothing.
"""

import base64
from datetime import UTC, datetime, timedelta
from enum import Enum, auto

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from chassis.envelope import SEAL, SEALER, Envelope, Origin
from chassis.events import Recorded
from chassis.identity import Credentials

# The same key answers TLS handshakes; nothing that TLS signs begins like this.
_DOMAIN = "leasehold seal v1"
_ALGORITHM = ec.ECDSA(SHA256())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# By how much the clocks of two services may differ.
_LEEWAY = timedelta(seconds=60)


class Standing(Enum):
    GOOD = auto()  # the source vouches for this event and all before it
    NONE = auto()  # not sealed; a seal may follow
    OUTDATED = auto()  # the certificate is not valid now, so it proves nothing
    BAD = auto()  # no relay of the source has written it


class Unacceptable(Exception):
    """The certificate is not one that the source could show."""


def sign(shown: Credentials, origin: Origin, event: Recorded) -> dict[str, str]:
    """The headers that seal a log up to this event."""
    key = load_pem_private_key(shown.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    leaf = x509.load_pem_x509_certificate(shown.chain)
    return {
        SEAL: base64.b64encode(key.sign(_text(origin, event), _ALGORITHM)).decode(),
        SEALER: base64.b64encode(leaf.public_bytes(Encoding.DER)).decode(),
    }


def standing(source: str, envelope: Envelope, trust: bytes, at: int) -> Standing:
    """What the seal of a message is worth at ``at``, to somebody who trusts ``trust``."""
    if not envelope.seal and not envelope.sealer:
        return Standing.NONE
    origin = Origin(source, 0, envelope.incarnation)
    try:
        leaf = x509.load_der_x509_certificate(base64.b64decode(envelope.sealer, validate=True))
        signature = base64.b64decode(envelope.seal, validate=True)
        _key_of(leaf, origin, trust).verify(signature, _text(origin, envelope.event), _ALGORITHM)
    except Exception:  # the parsers raise many kinds for hostile input
        return Standing.BAD
    now = _EPOCH + timedelta(microseconds=at)
    valid = leaf.not_valid_before_utc - _LEEWAY <= now <= leaf.not_valid_after_utc + _LEEWAY
    return Standing.GOOD if valid else Standing.OUTDATED


def _key_of(leaf: x509.Certificate, origin: Origin, trust: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a certificate that a root of ours has issued to the source, and no other."""
    if not any(_has_issued(root, leaf) for root in x509.load_pem_x509_certificates(trust)):
        raise Unacceptable("issued by nobody we trust")
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if uris != [f"spiffe://leasehold/svc/{origin.service}"]:
        raise Unacceptable(f"issued to {uris}")
    key = leaf.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Unacceptable("not a P-256 key")
    return key


def _has_issued(root: x509.Certificate, leaf: x509.Certificate) -> bool:
    """Directly: what the node authority signs can never seal a log."""
    try:
        leaf.verify_directly_issued_by(root)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _text(origin: Origin, event: Recorded) -> bytes:
    # The incarnation stands last: of all of them, it alone is not of a fixed form.
    place = (origin.service, origin.shard, event.position, event.hash.hex(), origin.incarnation)
    return "\n".join([_DOMAIN, *map(str, place)]).encode()
