"""A whole gateway on loopback: real store, writer, gRPC over mTLS, HTTP; the others stand in.

It runs on a loop in a thread of its own, so that tests are plain functions with a plain client.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import threading
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg

from chassis import identity, schema
from chassis.channels import Channels
from chassis.edge import Edge
from chassis.leader import Leader
from chassis.log_service import LogService
from chassis.rpc import serve_grpc
from chassis.store import Store
from chassis.writer import Writer
from gateway.api import GatewayService
from gateway.application import Gateway
from gateway.http.app import Gate, application
from gateway.http.rates import Rates
from gateway.http.server import bound, serve_http
from gateway.http.sessions import Sessions, Staff
from gateway.signing_keys import SigningKeys
from gateway.tokens import Tokens
from leasehold.authorisation import TABLE
from leasehold.chassis.v1.log_service_pb2_grpc import add_LogServiceServicer_to_server
from leasehold.gateway.v1.gateway_service_pb2_grpc import add_GatewayServiceServicer_to_server
from tests import servers
from tests.gateway.crowd import SERVICES, StandIns

STAFF = {"boss": "operator", "books": "finance"}
SECRET = "only for tests"

T = TypeVar("T")


class Rig:
    def __init__(self, folder: Path, database_url: str) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._clients: list[httpx.Client] = []
        self.store = self._store(database_url)
        self.gateway = Gateway(self.store)
        head = Leader(self.store, "test", 60_000).acquire()
        assert head is not None
        self.writer = Writer(self.gateway, self.store, head)
        self.keys = SigningKeys(folder / "token_keys")
        self.url = ""
        # The clock of the rate limits stands still unless a test moves it.
        self.ticks = 0

    @contextmanager
    def running(self) -> Iterator[Rig]:
        self.loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self.loop.run_forever, name="rig")
        thread.start()
        self.writer.start()
        stack = AsyncExitStack()
        try:
            self.on_loop(self._start(stack))
            yield self
        finally:
            for client in self._clients:
                client.close()
            self.on_loop(stack.aclose())
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join()
            self.loop.close()
            self.writer.stop()
            self.store.close()

    def on_loop(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(20)

    async def _start(self, stack: AsyncExitStack) -> None:
        identity.create_root(self._folder / "root")
        self.standins = StandIns()
        peers = {"gateway": f"127.0.0.1:{servers.free_port()}"}
        for name in SERVICES:
            server = await serve_grpc(
                "127.0.0.1", 0, self._identity(name), self.standins.servicers(name), TABLE
            )
            stack.push_async_callback(server.stop, 0)
            peers[name] = f"127.0.0.1:{server.port}"
        mine = self._identity("gateway")
        channels = Channels(mine, peers)
        stack.push_async_callback(channels.close)
        edge = Edge("gateway", self.writer, channels)
        server = await serve_grpc(
            "127.0.0.1",
            int(peers["gateway"].rpartition(":")[2]),
            mine,
            [
                (add_GatewayServiceServicer_to_server, GatewayService(self.gateway, edge)),
                (
                    add_LogServiceServicer_to_server,
                    LogService(self.gateway, self.store, edge, []),
                ),
            ],
            TABLE,
        )
        stack.push_async_callback(server.stop, 0)
        self._serve_http(stack, edge)

    def _serve_http(self, stack: AsyncExitStack, edge: Edge) -> None:
        digest = hashlib.sha256(SECRET.encode()).hexdigest()
        staff = {client_id: Staff(role, digest) for client_id, role in STAFF.items()}
        self.keys.rotate(edge.now())
        self.tokens = Tokens(self.keys, "leasehold")
        sessions = Sessions(self.gateway, self.tokens, staff)
        rates = Rates(lambda: self.ticks)
        self.gate = Gate(self.gateway, edge, sessions, self.keys, rates)
        listener = bound("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving = asyncio.create_task(serve_http(application(self.gate), listener))

        async def stop() -> None:
            serving.cancel()
            await asyncio.wait([serving])
            listener.close()

        stack.push_async_callback(stop)

    def _identity(self, name: str) -> identity.Identity:
        uri = f"spiffe://leasehold/svc/{name}"
        identity.issue(self._folder / "root", self._folder / name, uri, (name,))
        return identity.Identity(self._folder / name)

    def _store(self, url: str) -> Store:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(schema.ddl("gateway", connection.info.user).encode())
        return Store(url, "gateway")

    # Clients.

    def client(self, token: str = "") -> httpx.Client:
        """Each from an address of its own, so that one test does not slow down another."""
        third, fourth = divmod(next(self._numbers), 200)
        own = f"127.0.{third + 1}.{fourth + 1}"
        client = httpx.Client(
            base_url=self.url,
            transport=httpx.HTTPTransport(local_address=own, verify=False),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=10,
        )
        self._clients.append(client)
        return client

    def sign_up(self, name: str = "acme") -> dict[str, Any]:
        answer = self.client().post("/v1/tenants", json={"name": name})
        assert answer.status_code == 201, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def token(self, client_id: str, secret: str = SECRET) -> str:
        form = {"grant_type": "client_credentials"}
        answer = self.client().post("/oauth/token", data=form, auth=(client_id, secret))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def tenant(self, role: str = "admin") -> tuple[str, httpx.Client]:
        """A new tenant, and a client of it in some role."""
        signed = self.sign_up()
        admin = self.client(self.token(signed["client_id"], signed["client_secret"]))
        tenant_id = signed["tenant"]["tenant_id"]
        if role == "admin":
            return tenant_id, admin
        issued = admin.post("/v1/credentials", json={"role": role}).json()
        token = self.token(issued["client_id"], issued["client_secret"])
        return tenant_id, self.client(token)

    def staff(self, client_id: str = "boss") -> httpx.Client:
        return self.client(self.token(client_id))
