"""Metrics of this process, and the listener that shows them: /metrics, /healthz, /readyz.

The listener runs in threads of its own, so that a process whose event loop is overloaded can
still be looked at. ``ready`` is therefore called from another thread: it may read attributes
but must not touch the event loop. Label values come from closed sets (methods, codes, names of
services), never from a request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

REGISTRY = CollectorRegistry()

_PROCESS = psutil.Process()
Gauge(
    "process_resident_memory_bytes", "Memory that this process holds", registry=REGISTRY
).set_function(lambda: _PROCESS.memory_info().rss)


class MetricsListener:
    """``ready`` answers "" when the process is ready, else the reason why it is not."""

    def __init__(self, host: str, port: int, ready: Callable[[], str]) -> None:
        handler = type("Handler", (_Handler,), {"ready": staticmethod(ready)})
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    ready: Callable[[], str]
    timeout = 5  # seconds a client may take to ask
    server_version = "leasehold"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, generate_latest(REGISTRY), CONTENT_TYPE_LATEST)
        elif self.path == "/healthz":
            self._answer(200, b"ok\n")
        elif self.path == "/readyz":
            reason = self.ready()
            self._answer(503 if reason else 200, f"{reason or 'ready'}\n".encode())
        else:
            self._answer(404, b"not found\n")

    def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A scrape every few seconds is not worth a log line."""
