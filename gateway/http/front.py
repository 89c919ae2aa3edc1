"""The first thing a request meets: its address, its trace, its id, its count.

It works below the framework so that nothing, not even an unknown path, goes uncounted or
unlimited. Label values come from the table of operations, never from the request.
"""

import time
from typing import Any

from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis import ids, tracing
from chassis.errors import Overloaded
from chassis.logs import correlated
from chassis.metrics import REGISTRY
from gateway.http.problems import problem
from gateway.http.rates import Rates
from gateway.policy import ADDRESS_RATE

_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'",
}
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE"}

_seconds = Histogram(
    "gateway_http_seconds",
    "Time from the arrival of a request to the end of its answer",
    ("method", "route", "status"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)


class Front:
    def __init__(self, app: ASGIApp, rates: Rates) -> None:
        self._app = app
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = [(name.decode("latin-1"), value) for name, value in scope["headers"]]
        request_id, address = ids.new("req"), (scope.get("client") or ("", 0))[0]
        state = scope.setdefault("state", {})
        state.update(request_id=request_id, address=address, route="none")
        started, answered = time.perf_counter(), _Answered(send, request_id)
        try:
            with tracing.span("http", tracing.extract(headers)), correlated(request_id):
                await self._pass(scope, receive, answered, state)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            spent = time.perf_counter() - started
            _seconds.labels(method, state["route"], str(answered.status)).observe(spent)

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, state: dict[str, Any]
    ) -> None:
        try:
            self._rates.pass_or_wait(ADDRESS_RATE, f"address {state['address']}")
        except Overloaded as error:
            await problem(error, state["request_id"])(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _Answered:
    """Notes the status and adds the headers that every answer has."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._extra = {**_HEADERS, b"x-request-id": request_id.encode()}
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            added = [pair for pair in self._extra.items() if pair[0] not in present]
            message = {**message, "headers": [*message["headers"], *added]}
        await self._send(message)
