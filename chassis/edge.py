"""The async face of the writer: what handlers, reactions and workflows call.

Handlers translate and delegate; this is where a call becomes a command with an idempotency key
and a cause, and where outgoing calls get the same correlation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import grpc

from chassis import tracing
from chassis.callers import caller
from chassis.channels import Channels
from chassis.clock import now
from chassis.errors import Invalid
from chassis.events import Cause
from chassis.writer import Writer

LENGTH_MAX = 255

T = TypeVar("T")


class Message(Protocol):
    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...


M = TypeVar("M", bound=Message)


class Edge:
    def __init__(self, service: str, writer: Writer, channels: Channels) -> None:
        self.service = service
        self.writer = writer
        self._channels = channels

    async def command(
        self,
        context: grpc.aio.ServicerContext,
        request: Message,
        response: type[M],
        run: Callable[[int], M],
    ) -> M:
        """Run a handler's command; a repeated idempotency key gets the first answer."""
        who = caller(context)
        metadata = dict(context.invocation_metadata() or ())
        key, correlation_id, causation_id = (
            _short(metadata, name)
            for name in ("idempotency-key", "x-correlation-id", "x-causation-id")
        )
        cause = Cause(who.actor, correlation_id, causation_id, tracing.current_traceparent())
        # A key belongs to whoever chose it and to one kind of command.
        scope = f"{type(request).__name__}:{who.tenant_id or who.actor}:{key}" if key else ""
        payload = request.SerializeToString(deterministic=True) if key else b""
        answer = await settled(
            self.writer.command(
                lambda at: run(at).SerializeToString(), key=scope, payload=payload, cause=cause
            )
        )
        return response.FromString(answer)  # type: ignore[attr-defined, no-any-return]

    async def query(self, ask: Callable[[], T]) -> T:
        """Read committed state."""
        return await settled(self.writer.query(ask))  # type: ignore[no-any-return]

    async def act(
        self,
        run: Callable[[int], T],
        *,
        correlation_id: str = "",
        causation_id: str = "",
    ) -> T:
        """Run a command of the service's own accord."""
        cause = Cause(
            actor=f"svc:{self.service}",
            correlation_id=correlation_id,
            causation_id=causation_id,
            traceparent=tracing.current_traceparent(),
        )
        return await settled(self.writer.command(run, cause=cause))  # type: ignore[no-any-return]

    def peer(self, service: str) -> grpc.aio.Channel:
        return self._channels.get(service)

    def metadata(
        self, *, correlation_id: str = "", causation_id: str = "", key: str = ""
    ) -> list[tuple[str, str]]:
        """Metadata of an outgoing call; the trace context is added by the channel."""
        pairs = (
            ("x-correlation-id", correlation_id),
            ("x-causation-id", causation_id),
            ("idempotency-key", key),
        )
        return [(name, value) for name, value in pairs if value]

    def now(self) -> int:
        return now()


def _short(metadata: Mapping[str, Any], name: str) -> str:
    value = str(metadata.get(name, ""))
    if len(value) > LENGTH_MAX:
        raise Invalid(f"{name} has at most {LENGTH_MAX} characters", code="TOO_LONG", field=name)
    return value


def settled(future: Future[Any]) -> Awaitable[Any]:
    """Wait for the writer without being able to cancel what it has taken on."""
    return asyncio.shield(asyncio.wrap_future(future))
