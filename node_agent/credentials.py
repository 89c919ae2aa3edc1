"""How a node gets its certificate and keeps it fresh. The key never leaves the machine.

Joining trades a token that works once. Key and request are on disk before the request is sent,
and a join that was interrupted is repeated with the very same bytes and idempotency key, so that
a crash between the control plane's yes and our hearing it does not waste the token. Renewing
keeps the key: only one file then changes, and no crash can part a key from its certificate.
"""

import hashlib
from pathlib import Path

import grpc
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from chassis import certificates, identity
from chassis.channels import DEADLINE_SECONDS, target
from leasehold.placement.v1 import node_service_pb2, node_service_pb2_grpc
from node_agent import durable

_PLACEMENT = "placement"


class Credentials:
    """The identity of this node in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._joining_key = folder / "joining_key.pem"
        self._joining = folder / "joining.pb"

    @property
    def joined(self) -> bool:
        return (self._folder / "cert.pem").exists()

    def open(self) -> identity.Identity:
        for used in (self._joining, self._joining_key):
            used.unlink(missing_ok=True)
        return identity.Identity(self._folder)

    async def join(
        self, address: str, trust: bytes, evidence: node_service_pb2.JoinNodeRequest
    ) -> None:
        """Trades the token in ``evidence`` for a certificate."""
        key, request = self._request(evidence)
        options = [("grpc.ssl_target_name_override", _PLACEMENT)]
        secret = grpc.ssl_channel_credentials(trust)
        async with grpc.aio.secure_channel(target(address), secret, options) as channel:
            answer = await node_service_pb2_grpc.JoinServiceStub(channel).JoinNode(
                request,
                timeout=DEADLINE_SECONDS,
                metadata=(("idempotency-key", _digest(request.certificate_request)),),
            )
        identity.write(
            self._folder, key, answer.certificate_chain.encode(), answer.trust_bundle.encode()
        )

    async def renew(self, shown: identity.Identity, placement: grpc.aio.Channel) -> None:
        current = shown.credentials()
        key = load_pem_private_key(current.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey), "we made it ourselves"
        request = node_service_pb2.RenewCertificateRequest(
            certificate_request=certificates.request_pem(key).decode()
        )
        answer = await node_service_pb2_grpc.NodeServiceStub(placement).RenewCertificate(request)
        chain, trust = answer.certificate_chain.encode(), answer.trust_bundle.encode()
        identity.write(self._folder, current.key, chain, trust)

    def _request(
        self, evidence: node_service_pb2.JoinNodeRequest
    ) -> tuple[bytes, node_service_pb2.JoinNodeRequest]:
        """The key and the request for its certificate: those of an interrupted join, or new."""
        if self._joining.exists():
            earlier = node_service_pb2.JoinNodeRequest.FromString(self._joining.read_bytes())
            if earlier.token == evidence.token:
                return self._joining_key.read_bytes(), earlier
        key, certificate_request = identity.new_key_and_request()
        request = node_service_pb2.JoinNodeRequest()
        request.CopyFrom(evidence)
        request.certificate_request = certificate_request.decode()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        durable.write_bytes(str(self._joining_key), key)
        durable.write_bytes(str(self._joining), request.SerializeToString())
        return key, request


def _digest(text: str) -> str:
    return f"join-{hashlib.sha256(text.encode()).hexdigest()}"
