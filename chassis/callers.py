"""Who calls: read from the peer's certificate, never from what a request says about itself.

Only the gateway may speak for somebody else, in metadata that is ignored from any other peer,
and only for people: it cannot claim to be a service or a node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import grpc

from chassis.certificates import NODES_HOST
from chassis.errors import Denied, NotFound

ANYONE = "anyone"
ROLE, TENANT, ACTOR = "x-leasehold-role", "x-leasehold-tenant", "x-leasehold-actor"

_TENANT_ROLES = frozenset({"tenant_viewer", "tenant_user", "tenant_admin"})
_PEOPLE = _TENANT_ROLES | {"operator", "finance"}
# Which kinds of identity each trust domain can name; a domain's authority can mint no other.
_KINDS = {"leasehold": frozenset({"svc", "operator", "finance"}), NODES_HOST: frozenset({"node"})}
_FORM = re.compile(r"spiffe://([a-z.]+)/([a-z]+)/([A-Za-z0-9_.-]{1,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Caller:
    """``name`` is the name of the service, node or person in the certificate."""

    role: str
    actor: str
    tenant_id: str
    name: str

    def scope(self, requested_tenant_id: str) -> str:
        """The tenant whose things this call may see; "" means all of them.

        For a tenant another tenant does not exist, so that ids cannot be probed.
        """
        if self.role in _TENANT_ROLES:
            if requested_tenant_id not in ("", self.tenant_id):
                raise NotFound(f"no tenant {requested_tenant_id}")
            return self.tenant_id
        if self.role in ("node", ANYONE):
            raise NotFound(f"no tenant {requested_tenant_id}")
        return requested_tenant_id


_STRANGER = Caller(role=ANYONE, actor=ANYONE, tenant_id="", name="")


def caller(context: grpc.aio.ServicerContext) -> Caller:
    """The caller of this RPC; Denied if its certificate names nobody we know."""
    proof = context.auth_context()
    if "x509_pem_cert" not in proof:
        return _STRANGER  # only a server that asks for no certificate gets here
    uri, *_ = *proof.get("peer_spiffe_id", ()), b""
    peer = _peer(uri)
    if peer.role != "gateway":
        return peer
    return _spoken_for(peer, dict(context.invocation_metadata() or ()))


@lru_cache(maxsize=4096)
def _peer(uri: bytes) -> Caller:
    match = _FORM.fullmatch(uri.decode("latin-1"))
    if match is None or match[2] not in _KINDS.get(match[1], ()):
        raise Denied("the certificate names no identity of this platform", code="IDENTITY")
    _, kind, name = match.groups()
    role = name if kind == "svc" else kind
    return Caller(role=role, actor=f"{kind}:{name}", tenant_id="", name=name)


def _spoken_for(gateway: Caller, metadata: Mapping[str, str | bytes]) -> Caller:
    role, tenant, actor = (str(metadata.get(key, "")) for key in (ROLE, TENANT, ACTOR))
    if not role:
        return gateway
    if role not in _PEOPLE or not actor or (role in _TENANT_ROLES) != bool(tenant):
        raise Denied("the gateway cannot speak for this role", code="IDENTITY")
    return Caller(role=role, actor=actor, tenant_id=tenant, name=gateway.name)
