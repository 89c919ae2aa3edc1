"""Between protobuf messages and the words of the domain. Pure."""

from gateway.domain import Tenant
from leasehold.gateway.v1 import gateway_service_pb2 as pb


def tenant(tenant: Tenant) -> pb.Tenant:
    return pb.Tenant(
        tenant_id=tenant.id, name=tenant.name, status=tenant.status, projects=tenant.projects
    )
