"""The application: the table of all operations, their routes, and what stands around them."""

from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from chassis.edge import Edge
from chassis.errors import NotFound, ServiceError
from gateway.application import Gateway
from gateway.http import (
    oauth,
    openapi,
    routes_billing,
    routes_commitments,
    routes_envelopes,
    routes_exports,
    routes_fleet,
    routes_funding,
    routes_output,
    routes_pricing,
    routes_proofs,
    routes_provider,
    routes_tenants,
    routes_trail,
    routes_workloads,
)
from gateway.http.calls import Services
from gateway.http.front import Front
from gateway.http.operations import JSON, Ask, Operation, json_response
from gateway.http.pipeline import Pipeline
from gateway.http.problems import MethodNotAllowed, problem
from gateway.http.rates import Rates
from gateway.http.sessions import Sessions
from gateway.signing_keys import SigningKeys

_WELCOME = """Leasehold. The API is described in /openapi.json.
Sign up: POST /v1/tenants. Tokens: POST /oauth/token. Everything else is below /v1.
"""


@dataclass(frozen=True, slots=True)
class Gate:
    """What the API stands on."""

    gateway: Gateway
    edge: Edge
    sessions: Sessions
    keys: SigningKeys
    rates: Rates


def application(gate: Gate) -> ASGIApp:
    pipeline = Pipeline(Services(gate.edge), gate.sessions, gate.rates, gate.edge.now)
    app = Starlette(
        routes=[
            Route(operation.path, pipeline.endpoint(operation), methods=[operation.method])
            for operation in operations(gate)
        ],
        exception_handlers={HTTPException: _unrouted},
    )
    app.router.redirect_slashes = False
    return Front(app, gate.rates)


def operations(gate: Gate) -> tuple[Operation, ...]:
    """Every route there is."""
    described = (
        *_about(),
        *oauth.operations(gate.sessions, gate.keys, gate.edge.now),
        *routes_tenants.operations(),
        *routes_envelopes.operations(),
        routes_workloads.submission(gate.gateway),
        *routes_workloads.operations(),
        *routes_output.operations(),
        *routes_trail.operations(),
        *routes_funding.operations(),
        *routes_billing.operations(),
        *routes_pricing.operations(),
        *routes_commitments.operations(),
        *routes_provider.operations(),
        *routes_fleet.operations(),
        *routes_exports.operations(),
        *routes_proofs.operations(),
    )
    return (*described, _description(described))


def _about() -> tuple[Operation, ...]:
    async def welcome(ask: Ask) -> Response:
        return PlainTextResponse(_WELCOME)

    return (
        Operation(
            method="GET",
            path="/",
            summary="Says what this is.",
            handle=welcome,
            answers={"text/plain": {"type": "string"}},
        ),
    )


def _description(others: tuple[Operation, ...]) -> Operation:
    async def describe(ask: Ask) -> Response:
        return json_response(described)

    operation = Operation(
        method="GET",
        path="/openapi.json",
        summary="Describes every operation.",
        handle=describe,
        answers={JSON: {"type": "object"}},
    )
    described = openapi.document((*others, operation))
    return operation


async def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal: ServiceError = NotFound("there is nothing here", code="NO_SUCH_ROUTE")
    if error.status_code == 405:
        allow = (error.headers or {}).get("Allow", "")
        refusal = MethodNotAllowed(f"only {allow} is possible here", allow=allow)
    return problem(refusal, request.state.request_id)
