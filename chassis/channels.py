"""Channels to the other services: mutual TLS, quick to reconnect, following renewals.

gRPC cannot reload a client's certificate, so a channel is replaced when the identity was
renewed. Callers keep stubs for as long as they like: a ``Peer`` looks up the channel of the
moment at each call. It also gives every call a deadline and the trace it belongs to.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from chassis import tracing
from chassis.identity import Identity

DEADLINE_SECONDS = 5
# How long calls on a replaced channel may go on.
_GRACE_SECONDS = 30
# How often the folder of the identity is looked at.
_LOOK_SECONDS = 1


class Channels:
    """One Peer per service. ``peers`` maps its name to "host:port", several joined by "|"."""

    def __init__(self, identity: Identity, peers: Mapping[str, str]) -> None:
        self._identity = identity
        self._targets = {name: target(addresses) for name, addresses in peers.items()}
        self._peers: dict[str, Peer] = {}

    def get(self, name: str) -> Peer:
        if name not in self._peers:
            self._peers[name] = Peer(name, self._targets[name], self._identity)
        return self._peers[name]

    async def close(self) -> None:
        for peer in self._peers.values():
            await peer.close(None)
        self._peers.clear()


class Peer(grpc.aio.Channel):
    """A channel to the service whose certificate bears ``name`` as a DNS name."""

    def __init__(self, name: str, target: str, identity: Identity) -> None:
        self._name = name
        self._target = target
        self._identity = identity
        self._closing: set[asyncio.Task[None]] = set()
        self._generation = 0
        self._looked = 0.0
        self._channel: grpc.aio.Channel | None = None

    def current(self) -> tuple[grpc.aio.Channel, int]:
        """The channel of the moment and the generation of the certificate it shows."""
        if self._channel is None or time.monotonic() - self._looked > _LOOK_SECONDS:
            self._looked = time.monotonic()
            newest = self._identity.credentials()
            if newest.generation != self._generation:
                self._retire()
                self._generation = newest.generation
                secret = grpc.ssl_channel_credentials(newest.trust, newest.key, newest.chain)
                options = [*_OPTIONS, ("grpc.ssl_target_name_override", self._name)]
                self._channel = grpc.aio.secure_channel(self._target, secret, options=options)
        assert self._channel is not None
        return self._channel, self._generation

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return _Method(self, lambda channel: channel.unary_unary(method, *args, **options))

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        return _Method(self, lambda channel: channel.unary_stream(method, *args, **options))

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return _Method(self, lambda channel: channel.stream_unary(method, *args, **options))

    def stream_stream(self, method: str, *args: Any, **options: Any) -> Any:
        return _Method(self, lambda channel: channel.stream_stream(method, *args, **options))

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self.current()[0].get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self.current()[0].wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self.current()[0].channel_ready()

    async def close(self, grace: float | None = None) -> None:
        if self._channel is not None:
            await self._channel.close(grace)
        for task in self._closing:
            task.cancel()
        self._channel, self._generation = None, 0

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close(None)

    def _retire(self) -> None:
        if self._channel is not None:
            task = asyncio.ensure_future(self._channel.close(_GRACE_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class _Method:
    """A method of a stub; made anew for each generation of the channel."""

    def __init__(self, peer: Peer, make: Callable[[grpc.aio.Channel], Any]) -> None:
        self._peer = peer
        self._make = make
        self._generation = 0
        self._call: Any = None

    def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: Any = None, **options: Any
    ) -> Any:
        channel, generation = self._peer.current()
        if generation != self._generation:
            self._call, self._generation = self._make(channel), generation
        sent = tuple(metadata or ())
        if not any(name == tracing.HEADER for name, _ in sent):
            sent += tracing.metadata()
        deadline = DEADLINE_SECONDS if timeout is None else timeout
        return self._call(request, timeout=deadline, metadata=sent, **options)


def target(addresses: str) -> str:
    """The gRPC target of "host:port|host:port"; a list is tried in order, first wins."""
    found = addresses.split("|")
    hosts = [address.rpartition(":")[0] for address in found]
    if all(_is_ipv4(host) for host in hosts):
        return f"ipv4:{','.join(found)}"
    if len(found) > 1:
        raise ValueError(f"{addresses}: a list of addresses must be of IPv4 numbers")
    return f"dns:///{addresses}"


def _is_ipv4(host: str) -> bool:
    try:
        return isinstance(ipaddress.ip_address(host), ipaddress.IPv4Address)
    except ValueError:
        return False


_OPTIONS: list[tuple[str, Any]] = [
    # A peer that was restarted or taken over must be found again quickly.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A peer that hangs without closing its connection is noticed by its silence.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]
