"""The HTTP listener, on the same loop as everything else in the process.

The port is bound here rather than by the server, which would end the process if it is taken;
and the process, not the server, listens to signals.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

CONNECTIONS_MAX = 2000
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 1


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(app: ASGIApp, listener: socket.socket) -> None:
    """Serves until cancelled; then lets requests under way finish for a moment."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; OSError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only of a socket that says it is TCP does asyncio switch off Nagle's delay, which would
    # cost every answer 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(CONNECTIONS_MAX)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
