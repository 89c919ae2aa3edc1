"""Loads a tenant, gives it one command, saves what happened; and answers who somebody is."""

from dataclasses import dataclass

from chassis.application import Application, Log
from gateway.domain import Tenant
from gateway.projections import CredentialsById, TenantsById


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential that is in force, and whether its tenant may act."""

    client_id: str
    tenant_id: str
    secret_sha256: str
    role: str
    active: bool


class Gateway(Application):
    service = "gateway"
    aggregates = (Tenant,)

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self._tenants = TenantsById()
        self._credentials = CredentialsById()
        self.views = {"tenants_by_id": self._tenants, "credentials_by_id": self._credentials}

    def sign_up(
        self,
        tenant_id: str,
        name: str,
        project: str,
        *,
        client_id: str,
        secret_sha256: str,
        at: int,
    ) -> Tenant:
        """A tenant with one project and the admin credential it helps itself with."""
        tenant = Tenant.sign_up(tenant_id, name, project, at=at)
        tenant.issue_credential(client_id, secret_sha256, "admin", at=at)
        self.save(tenant)
        return tenant

    def open_project(self, tenant_id: str, project: str, *, at: int) -> Tenant:
        tenant = self.get(Tenant, tenant_id)
        tenant.open_project(project, at=at)
        self.save(tenant)
        return tenant

    def issue_credential(
        self, tenant_id: str, role: str, *, client_id: str, secret_sha256: str, at: int
    ) -> None:
        tenant = self.get(Tenant, tenant_id)
        tenant.issue_credential(client_id, secret_sha256, role, at=at)
        self.save(tenant)

    def revoke_credential(self, tenant_id: str, client_id: str, *, at: int) -> None:
        tenant = self.get(Tenant, tenant_id)
        tenant.revoke_credential(client_id, at=at)
        self.save(tenant)

    def suspend(self, tenant_id: str, reason: str, *, at: int) -> Tenant:
        tenant = self.get(Tenant, tenant_id)
        tenant.suspend(reason, at=at)
        self.save(tenant)
        return tenant

    def resume(self, tenant_id: str, *, at: int) -> Tenant:
        tenant = self.get(Tenant, tenant_id)
        tenant.resume(at=at)
        self.save(tenant)
        return tenant

    def tenant(self, tenant_id: str) -> Tenant:
        return self.get(Tenant, tenant_id)

    # Safe from any thread: each reads one entry that is replaced and never changed.

    def credential(self, client_id: str) -> Credential | None:
        found = self._credentials.credentials.get(client_id)
        if found is None:
            return None
        tenant = self._tenants.tenants[found["tenant_id"]]
        return Credential(client_id=client_id, active=tenant["active"], **found)

    def has_project(self, tenant_id: str, project: str) -> bool:
        tenant = self._tenants.tenants.get(tenant_id)
        return tenant is not None and project in tenant["projects"]
