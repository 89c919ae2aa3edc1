"""A tenant, its projects and its credentials: signed up -> suspended <-> resumed.

Only hashes of secrets are ever recorded: an event is forever, and it is read by others.
"""

from __future__ import annotations

from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Invalid, NotFound, Refused
from gateway import policy


class Tenant(Aggregate):
    TOPIC = "gateway.tenant"

    def __init__(self, name: str, project: str) -> None:
        self.tenant_id = self.id
        self.name = name
        self.status = "active"
        self.projects = [project]
        # client_id -> role, of the credentials that are not revoked.
        self.credentials: dict[str, str] = {}

    class SignedUp(FirstEvent):
        TOPIC = "gateway.tenant.signed_up"
        name: str
        project: str

    @classmethod
    def sign_up(cls, tenant_id: str, name: str, project: str, *, at: int) -> Tenant:
        if not policy.is_name(name):
            raise BadName(name, field="name")
        if not policy.is_name(project):
            raise BadName(project, field="project")
        return cls._create(cls.SignedUp, id=tenant_id, timestamp=at, name=name, project=project)

    def open_project(self, project: str, *, at: int) -> None:
        """Opening an open project is opening it once."""
        if not policy.is_name(project):
            raise BadName(project, field="project")
        if project in self.projects:
            return
        if refusal := policy.project_refusal(self.projects):
            raise Refused(f"a tenant has at most {policy.PROJECTS_MAX} projects", code=refusal)
        self.trigger_event(self.ProjectOpened, timestamp=at, project=project)

    class ProjectOpened(Aggregate.Event):
        TOPIC = "gateway.tenant.project_opened"
        project: str

        def apply(self, tenant: Tenant) -> None:
            tenant.projects.append(self.project)

    def issue_credential(self, client_id: str, secret_sha256: str, role: str, *, at: int) -> None:
        if role not in policy.ACTING_ROLES:
            raise Invalid(
                f"a role is one of {', '.join(policy.ACTING_ROLES)}", code="ROLE", field="role"
            )
        if refusal := policy.issue_refusal(self.credentials):
            raise Refused(
                f"a tenant has at most {policy.CREDENTIALS_MAX} credentials", code=refusal
            )
        self.trigger_event(
            self.CredentialIssued,
            timestamp=at,
            client_id=client_id,
            secret_sha256=secret_sha256,
            role=role,
        )

    class CredentialIssued(Aggregate.Event):
        TOPIC = "gateway.tenant.credential_issued"
        client_id: str
        secret_sha256: str
        role: str

        def apply(self, tenant: Tenant) -> None:
            tenant.credentials[self.client_id] = self.role

    def revoke_credential(self, client_id: str, *, at: int) -> None:
        if client_id not in self.credentials:
            raise NotFound(f"no credential {client_id!r}", code="CREDENTIAL_NOT_FOUND")
        if refusal := policy.revoke_refusal(self.credentials, client_id):
            raise Refused("this is the tenant's only admin credential", code=refusal)
        self.trigger_event(self.CredentialRevoked, timestamp=at, client_id=client_id)

    class CredentialRevoked(Aggregate.Event):
        TOPIC = "gateway.tenant.credential_revoked"
        client_id: str

        def apply(self, tenant: Tenant) -> None:
            del tenant.credentials[self.client_id]

    def suspend(self, reason: str, *, at: int) -> None:
        if not 1 <= len(reason) <= policy.REASON_CHARACTERS_MAX:
            raise Invalid(
                f"a reason has 1 to {policy.REASON_CHARACTERS_MAX} characters",
                code="REASON",
                field="reason",
            )
        if self.status == "active":
            self.trigger_event(self.Suspended, timestamp=at, reason=reason)

    class Suspended(Aggregate.Event):
        TOPIC = "gateway.tenant.suspended"
        reason: str

        def apply(self, tenant: Tenant) -> None:
            tenant.status = "suspended"

    def resume(self, *, at: int) -> None:
        if self.status == "suspended":
            self.trigger_event(self.Resumed, timestamp=at)

    class Resumed(Aggregate.Event):
        TOPIC = "gateway.tenant.resumed"

        def apply(self, tenant: Tenant) -> None:
            tenant.status = "active"


class BadName(Invalid):
    default_code = "NAME"

    def __init__(self, name: str, *, field: str) -> None:
        super().__init__(
            f"{name[:80]!r} is no name: lower-case letters, digits and inner dashes, at most 63",
            field=field,
        )
