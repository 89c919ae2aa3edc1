"""The node authority: gives a node's key a certificate under the name that placement chose.

What else a request asks for never counts; a name comes from a one-time token or from the
certificate that is being renewed.
"""

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from chassis import certificates, identity

CERTIFICATE_SECONDS = 3600


class Registrar:
    def __init__(self, node_ca_folder: Path) -> None:
        self._folder = node_ca_folder

    @property
    def trust_bundle(self) -> str:
        return (self._folder / "ca.pem").read_text()

    def key_sha256(self, request_pem: str) -> str:
        """The fingerprint of the key in a request; Invalid if the request does not prove it."""
        key = certificates.requested_key(request_pem.encode())
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    def sign(self, node_id: str, request_pem: str) -> str:
        uri = f"spiffe://{certificates.NODES_HOST}/node/{node_id}"
        chain = identity.sign_request(self._folder, request_pem.encode(), uri, CERTIFICATE_SECONDS)
        return chain.decode()
