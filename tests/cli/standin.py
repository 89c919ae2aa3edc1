"""A small gateway for tests of the command line, on a real socket.

It answers in the gateway's own words: problems and shapes come from the gateway's code. It keeps
the first answer of every idempotency key, as the gateway does, and can fail on the way.
"""

import base64
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import jwt
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from chassis.errors import NotFound, ServiceError, Unavailable
from gateway.http.problems import Incident, Unauthenticated, problem
from gateway.http.server import bound
from tests import servers
from tests.waiting import wait_for

CLIENT_ID, CLIENT_SECRET = "cli_test", "lhs_only for tests/+%"
TENANT_ID = "ten_00000000000000000000a"

Handler = Callable[["Asked"], Any]


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")


class StandIn:
    def __init__(self) -> None:
        self.url = ""
        self.forget()

    def forget(self) -> None:
        """Be as new."""
        self.asked: list[Asked] = []
        self.handlers: dict[tuple[str, str], Handler] = {}
        # What happens to the next calls: "503", "lost" (done, and the answer does not arrive).
        self.troubles: deque[str] = deque()
        self.tokens = 0
        self.refused_tokens: set[str] = set()
        self._answers: dict[str, Response] = {}

    def on(self, method: str, path: str, answer: Any) -> None:
        """``answer`` is a document, an error, a response, or a function of what was asked."""
        fixed = isinstance(answer, Response) or not callable(answer)
        self.handlers[method, path] = (lambda _: answer) if fixed else answer

    def calls(self, method: str, path: str) -> list[Asked]:
        return [one for one in self.asked if (one.method, one.path) == (method, path)]

    async def answer(self, request: Request) -> Response:
        asked = Asked(
            request.method,
            request.url.path,
            dict(request.query_params),
            {name.lower(): value for name, value in request.headers.items()},
            await request.body(),
        )
        self.asked.append(asked)
        trouble = self.troubles.popleft() if self.troubles else ""
        if trouble == "503":
            return problem(Unavailable("the service is away"), "req_1")
        response = self._answer(asked)
        return _cut_off() if trouble == "lost" else response

    def _answer(self, asked: Asked) -> Response:
        if asked.path == "/oauth/token":
            return self._token(asked)
        if asked.method != "GET" and not asked.key:
            return problem(Incident("a change without a key could be done twice"), "req_1")
        if asked.headers.get("authorization", "") in self.refused_tokens:
            return problem(Unauthenticated("not valid", code="INVALID_TOKEN"), "req_1")
        if asked.key in self._answers:
            return self._answers[asked.key]
        handler = self.handlers.get((asked.method, asked.path))
        if handler is None:
            return problem(NotFound("there is nothing here", code="NO_SUCH_ROUTE"), "req_1")
        found = handler(asked)
        response = _response(found, 201 if asked.method == "POST" else 200)
        if asked.key and response.status_code < 400:
            self._answers[asked.key] = response
        return response

    def _token(self, asked: Asked) -> Response:
        given = base64.b64decode(asked.headers["authorization"].split()[1]).decode()
        if [unquote_plus(part) for part in given.split(":")] != [CLIENT_ID, CLIENT_SECRET]:
            return Response(orjson.dumps({"error": "invalid_client"}), 401)
        assert asked.body == b"grant_type=client_credentials"
        self.tokens += 1
        claims = {"role": "tenant_admin", "tenant": TENANT_ID, "exp": 4_000_000_000}
        token = jwt.encode({**claims, "jti": str(self.tokens)}, "k" * 32, "HS256")
        return _response({"access_token": token, "token_type": "Bearer", "expires_in": 600}, 200)

    def refuse_tokens_so_far(self) -> None:
        seen = {one.headers.get("authorization", "") for one in self.asked}
        self.refused_tokens = {one for one in seen if one.startswith("Bearer")}


def _response(found: Any, status: int) -> Response:
    if isinstance(found, ServiceError):
        return problem(found, "req_1")
    if isinstance(found, Response):
        return found
    return Response(orjson.dumps(found), status, media_type="application/json")


def _cut_off() -> Response:
    """The connection ends before the promised bytes have come."""
    return StreamingResponse(iter([b""]), headers={"content-length": "100"})


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def running() -> Iterator[StandIn]:
    stand_in = StandIn()
    methods = ["GET", "POST", "PUT", "DELETE"]
    app = Starlette(routes=[Route("/{path:path}", stand_in.answer, methods=methods)])
    listener = bound("127.0.0.1", servers.free_port())
    listener.setblocking(True)
    listener.listen()
    stand_in.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None)
    server = _Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_for(lambda: server.started, what="the stand-in listens")
        yield stand_in
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
