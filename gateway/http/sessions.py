"""Who is asking: from a client's secret to a token, and from a token back to a person.

A token only says who somebody was when it was issued. On each request the credential behind it
is looked up again, so that a revocation or a suspension holds from the next request on.
"""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from chassis.errors import Denied
from gateway.application import Gateway
from gateway.http.problems import Unauthenticated
from gateway.policy import ACTING_ROLES
from gateway.tokens import BadToken, Holder, Tokens

log = logging.getLogger(__name__)

# Compared with when there is no such client, so that the answer takes as long.
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True, slots=True)
class Person:
    """In whose name the other services are asked."""

    role: str
    tenant_id: str
    actor: str


@dataclass(frozen=True, slots=True)
class Staff:
    """A client that the platform's owner set up: role operator or finance."""

    role: str
    secret_sha256: str


class Sessions:
    def __init__(self, gateway: Gateway, tokens: Tokens, staff: Mapping[str, Staff]) -> None:
        self._gateway = gateway
        self._tokens = tokens
        self._staff = staff

    def token(self, client_id: str, secret: str, at: int) -> str | None:
        """A token for the client, or None if it is not who it says, or may not act."""
        holder, expected = self._known(client_id)
        given = hashlib.sha256(secret.encode()).hexdigest()
        if not hmac.compare_digest(given, expected) or holder is None:
            return None
        return self._tokens.issue(holder, at)

    def person(self, token: str, at: int) -> Person:
        """For whom the token speaks, if that client may still act."""
        try:
            holder = self._tokens.holder(token, at)
        except BadToken as error:
            log.info("token refused", extra={"cause": str(error)})
            raise Unauthenticated("the access token is not valid", code="INVALID_TOKEN") from None
        if member := self._staff.get(holder.client_id):
            if (member.role, "") != (holder.role, holder.tenant_id):
                raise Unauthenticated("the access token is not valid", code="INVALID_TOKEN")
            return Person(member.role, "", f"{member.role}:{holder.client_id}")
        return self._tenant_person(holder)

    def _tenant_person(self, holder: Holder) -> Person:
        credential = self._gateway.credential(holder.client_id)
        if credential is None:
            raise Unauthenticated("the credential was revoked", code="CREDENTIAL_REVOKED")
        if (credential.tenant_id, ACTING_ROLES[credential.role]) != (holder.tenant_id, holder.role):
            raise Unauthenticated("the access token is not valid", code="INVALID_TOKEN")
        if not credential.active:
            raise Denied("this tenant is suspended", code="TENANT_SUSPENDED")
        return Person(
            role=holder.role,
            tenant_id=holder.tenant_id,
            actor=f"tenant:{holder.tenant_id}/{holder.client_id}",
        )

    def _known(self, client_id: str) -> tuple[Holder | None, str]:
        """The client as it would hold a token, and the hash of its secret."""
        if member := self._staff.get(client_id):
            return Holder(client_id, "", member.role), member.secret_sha256
        credential = self._gateway.credential(client_id)
        if credential is None:
            return None, _NOBODY
        role = ACTING_ROLES[credential.role]
        holder = Holder(client_id, credential.tenant_id, role) if credential.active else None
        return holder, credential.secret_sha256
