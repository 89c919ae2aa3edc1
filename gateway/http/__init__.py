"""The REST API: one table of operations, from which routes and OpenAPI document both follow.

A request passes ``front`` (address, trace, metrics), ``pipeline`` (who, how fast, what), and
one operation of ``routes_*``, which asks the service that owns the answer over gRPC. Nothing is
decided here that a service decides; the tenant always comes from the token.
"""
