"""The embedded certificate authority in its folders, and the identity a process shows.

An identity is one SPIFFE URI in a short-lived certificate. A folder holds ``key.pem`` (0600),
``cert.pem`` (leaf, then intermediates) and ``ca.pem`` (what to trust). Each file is replaced
atomically and ``cert.pem`` last, so a reader that notices a new certificate finds its key; one
that comes in between sees that key and certificate differ, and keeps what it had.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from chassis import certificates
from chassis.clock import SECOND, now

_KEY, _CERTIFICATE, _TRUST = "key.pem", "cert.pem", "ca.pem"


def create_root(folder: Path) -> None:
    """A new trust root. It never replaces one: every identity hangs on it."""
    if (folder / _KEY).exists():
        raise FileExistsError(f"{folder} already holds a root")
    key = certificates.new_key()
    pem = certificates.root_certificate(key).public_bytes(Encoding.PEM)
    write(folder, certificates.key_pem(key), pem, pem)


def create_node_ca(root_folder: Path, folder: Path) -> None:
    """The authority that signs nodes; made again at half-life, to renew it."""
    root_key, root = _authority(root_folder)
    key = certificates.new_key()
    certificate = certificates.node_ca_certificate(root_key, root, key)
    write(
        folder,
        certificates.key_pem(key),
        certificate.public_bytes(Encoding.PEM),
        root.public_bytes(Encoding.PEM),
    )


def issue(
    root_folder: Path, folder: Path, uri: str, dns_names: Iterable[str] = (), seconds: int = 3600
) -> None:
    """A new key and certificate in ``folder``; with a DNS name it can serve as well as call."""
    root_key, root = _authority(root_folder)
    key = certificates.new_key()
    leaf = certificates.leaf_certificate(
        root_key, root, key.public_key(), uri, tuple(dns_names), seconds
    )
    write(
        folder,
        certificates.key_pem(key),
        leaf.public_bytes(Encoding.PEM),
        root.public_bytes(Encoding.PEM),
    )


def new_key_and_request() -> tuple[bytes, bytes]:
    """A key and the request for its certificate, both PEM. The key stays where it is made."""
    key = certificates.new_key()
    return certificates.key_pem(key), certificates.request_pem(key)


def sign_request(ca_folder: Path, csr_pem: bytes, uri: str, seconds: int) -> bytes:
    """The chain, leaf first, for the request's key under the name that we give it."""
    public_key = certificates.requested_key(csr_pem)
    ca_key, ca = _authority(ca_folder)
    leaf = certificates.leaf_certificate(ca_key, ca, public_key, uri, (), seconds)
    return leaf.public_bytes(Encoding.PEM) + ca.public_bytes(Encoding.PEM)


def write(folder: Path, key_pem: bytes, chain_pem: bytes, trust_pem: bytes) -> None:
    """Puts an identity into its folder, the certificate last."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, data in ((_TRUST, trust_pem), (_KEY, key_pem), (_CERTIFICATE, chain_pem)):
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")  # mode 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / name)


class UnusableIdentity(Exception):
    """The folder holds no identity that could be shown; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one certificate of an identity is made of; never changes, only gets replaced."""

    key: bytes
    chain: bytes
    trust: bytes
    uri: str
    # Microseconds UTC.
    expires_at: int
    renew_at: int
    # Counts the certificates that this process has shown.
    generation: int


class Identity:
    """The identity in a folder, renewed under the feet of the process that shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()  # the TLS library asks from threads of its own
        self._seen = (0, 0)
        try:
            current = self._read(self._stamp(), generation=1)
        except (OSError, ValueError) as error:
            raise UnusableIdentity(f"{folder}: {error}") from error
        if current is None:
            raise UnusableIdentity(f"{folder}: {_KEY} does not belong to {_CERTIFICATE}")
        self._current = current

    def credentials(self) -> Credentials:
        """The newest usable certificate; an unusable renewal leaves the one before in force."""
        with self._lock, suppress(OSError, ValueError):
            stamp = self._stamp()
            if stamp != self._seen:
                renewed = self._read(stamp, self._current.generation + 1)
                self._current = renewed or self._current
        return self._current

    @property
    def uri(self) -> str:
        return self._current.uri

    @property
    def expires_at(self) -> int:
        return self.credentials().expires_at

    def needs_renewal(self) -> bool:
        """True from half of its life, a little sooner or later for each certificate."""
        return now() >= self.credentials().renew_at

    def _stamp(self) -> tuple[int, int]:
        status = (self.folder / _CERTIFICATE).stat()
        return status.st_mtime_ns, status.st_ino

    def _read(self, stamp: tuple[int, int], generation: int) -> Credentials | None:
        if (self.folder / _KEY).stat().st_mode & 0o077:
            raise ValueError(f"{_KEY} can be read by others; set its mode to 0600")
        key, chain, trust = (
            (self.folder / name).read_bytes() for name in (_KEY, _CERTIFICATE, _TRUST)
        )
        leaf = x509.load_pem_x509_certificates(chain)[0]
        if load_pem_private_key(key, None).public_key() != leaf.public_key():
            return None
        self._seen = stamp
        since = int(leaf.not_valid_before_utc.timestamp()) * SECOND
        until = int(leaf.not_valid_after_utc.timestamp()) * SECOND
        renew_at = since + (until - since) * random.randint(40, 60) // 100
        return Credentials(key, chain, trust, _uri(leaf), until, renew_at, generation)


def _uri(leaf: x509.Certificate) -> str:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""  # an authority
    return "".join(names.get_values_for_type(x509.UniformResourceIdentifier)[:1])


def _authority(folder: Path) -> tuple[certificates.Key, x509.Certificate]:
    key = load_pem_private_key((folder / _KEY).read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnusableIdentity(f"{folder}: {_KEY} is not a P-256 key")
    return key, x509.load_pem_x509_certificate((folder / _CERTIFICATE).read_bytes())
