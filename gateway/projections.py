"""What the gateway looks up on every request.

Entries are replaced, never changed in place, and the HTTP edge reads single entries from its own
thread: a request must learn of a revoked credential at once, and must not wait for a commit.
"""

from typing import Any

from chassis.application import View
from gateway.domain import Tenant


class TenantsById(View):
    """tenant_id -> {active, projects}."""

    def __init__(self) -> None:
        self.tenants: dict[str, dict[str, Any]] = {}

    def apply(self, event: Any) -> None:
        known = self.tenants.get(event.originator_id, {})
        match event:
            case Tenant.SignedUp():
                known = {"active": True, "projects": [event.project]}
            case Tenant.ProjectOpened():
                known = {**known, "projects": [*known["projects"], event.project]}
            case Tenant.Suspended():
                known = {**known, "active": False}
            case Tenant.Resumed():
                known = {**known, "active": True}
        self.tenants[event.originator_id] = known


class CredentialsById(View):
    """client_id -> {tenant_id, secret_sha256, role}, of the credentials that are not revoked."""

    def __init__(self) -> None:
        self.credentials: dict[str, dict[str, str]] = {}

    def apply(self, event: Any) -> None:
        match event:
            case Tenant.CredentialIssued():
                self.credentials[event.client_id] = {
                    "tenant_id": event.originator_id,
                    "secret_sha256": event.secret_sha256,
                    "role": event.role,
                }
            case Tenant.CredentialRevoked():
                del self.credentials[event.client_id]
