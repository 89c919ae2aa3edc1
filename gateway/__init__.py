"""The gateway knows who asks: tenants, projects, credentials, tokens, and the REST API.

It holds no truth but tenancy; every other answer comes from the service that owns it.

Owns: ``Tenant``. Emits: ``gateway.tenant.signed_up``, ``project_opened``, ``credential_issued``,
``credential_revoked``, ``suspended``, ``resumed``. Reacts to: nothing.
"""
