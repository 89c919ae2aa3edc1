"""What an operation of the API is: everything that routing, checking and documenting need.

Who may use an operation is not said here: it follows from the RPC behind it, in the same table
by which the owning service decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response

from chassis.errors import Invalid, NotFound
from gateway.http import queries
from gateway.http.bodies import Body
from gateway.http.calls import Services, roles_of
from gateway.http.queries import Query
from gateway.http.sessions import Person
from gateway.http.shapes import json_of
from gateway.policy import Rate

PEOPLE = ("tenant_viewer", "tenant_user", "tenant_admin", "finance", "operator")
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request that passed every check; ``person`` is None where anyone may ask."""

    services: Services
    person: Person | None
    request_id: str
    address: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    request: Request
    body: Any
    key: str

    async def call(self, method: MethodDescriptor, request: Message) -> Any:
        return await self.services.call(
            method, request, self.person, request_id=self.request_id, key=self.key
        )

    @property
    def own_tenant(self) -> str:
        """The tenant of the person who asks; "" for staff."""
        return self.person.tenant_id if self.person else ""

    @property
    def tenant(self) -> str:
        """The tenant asked about: one's own, or for staff the one that the query names."""
        named = self.query.get("tenant", "")
        if not self.own_tenant:
            if not named:
                raise Invalid("name the tenant: ?tenant=ten_…", code="TENANT", field="tenant")
            return named
        if named not in ("", self.own_tenant):
            raise NotFound(f"no tenant {named}", code="TENANT_NOT_FOUND")
        return self.own_tenant

    def page(self, listing: str) -> dict[str, Any]:
        """The fields ``page_size`` and ``page_token`` of the RPC behind a list."""
        size = int(self.query.get("page_size", queries.PAGE_SIZE_DEFAULT))
        token = queries.page_token(listing, self.query.get("page_token", ""))
        return {"page_size": size, "page_token": token}


Handler = Callable[[Ask], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    method: str
    path: str
    summary: str
    handle: Handler
    # The RPC that decides; without one, or if open, no token is needed.
    rpc: MethodDescriptor | None = None
    open: bool = False
    body: type[Body] | None = None
    query: tuple[Query, ...] = ()
    # True if the client must say which version it changes, in If-Match.
    conditional: bool = False
    # How fast one address may use it, on top of what applies to all operations.
    rate: Rate | None = None
    status: int = 200
    # Media type -> protobuf message or JSON schema of the answer.
    answers: Mapping[str, Descriptor | dict[str, Any]] = field(default_factory=dict)

    @property
    def needs_token(self) -> bool:
        return self.rpc is not None and not self.open

    @property
    def is_command(self) -> bool:
        """Whether it changes something, and so takes an idempotency key."""
        return self.rpc is not None and self.method != "GET"

    @property
    def roles(self) -> tuple[str, ...]:
        if self.rpc is None:
            return ()
        allowed = roles_of(self.rpc)
        return tuple(role for role in PEOPLE if role in allowed)

    @property
    def name(self) -> str:
        words = self.path.replace("{", "").replace("}", "").replace(".", "/").split("/")
        return "_".join([self.method.lower(), *filter(None, words)]).replace("-", "_")


def asking(
    method: str,
    path: str,
    summary: str,
    rpc: MethodDescriptor,
    request: Callable[[Ask], Message],
    *,
    answer: str = "",
    status: int = 200,
    body: type[Body] | None = None,
    query: tuple[Query, ...] = (),
    location: str = "",
) -> Operation:
    """An operation that is one RPC.

    ``answer`` names the field of its response to show, ``location`` where a new thing is found.
    """
    kind = rpc.output_type.fields_by_name[answer].message_type if answer else rpc.output_type

    async def handle(ask: Ask) -> Response:
        response = await ask.call(rpc, request(ask))
        shown = json_of(getattr(response, answer) if answer else response)
        if "next_page_token" in shown:
            shown["next_page_token"] = queries.cursor(rpc.name, shown["next_page_token"])
        headers = {"Location": location.format(**shown)} if location else None
        return json_response(shown, status, headers)

    return Operation(
        method=method,
        path=path,
        summary=summary,
        handle=handle,
        rpc=rpc,
        body=body,
        query=query,
        status=status,
        answers={JSON: kind} if status != 204 else {},
    )


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    if status == 204:
        return Response(status_code=status)
    return Response(orjson.dumps(value), status, headers, media_type=JSON)
