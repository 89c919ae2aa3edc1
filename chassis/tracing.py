"""W3C trace context through gRPC metadata, NATS headers and HTTP headers.

Everywhere inside the platform the context travels as one text, the ``traceparent`` header.
Without an exporter spans carry identities and record nothing, which keeps a span near ten
microseconds; a malformed header from outside starts a new trace and is never an error.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

HEADER = "traceparent"

_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_FORM = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_silent = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
_tracer: trace.Tracer = _silent.get_tracer("leasehold")


def configure(service: str, endpoint: str = "") -> bool:
    """Sends spans to an OTLP endpoint; False if the exporter's package is not installed."""
    global _tracer
    if not endpoint:
        return True
    try:
        exporter = importlib.import_module(_EXPORTER).OTLPSpanExporter(endpoint=endpoint)
    except ModuleNotFoundError:
        return False
    provider = TracerProvider(
        sampler=ALWAYS_ON, resource=Resource.create({"service.name": service})
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = provider.get_tracer("leasehold")
    return True


@contextmanager
def span(name: str, traceparent: str = "") -> Iterator[trace.Span]:
    """A span under ``traceparent``, or under the current span if that is empty or malformed."""
    parent = _remote(traceparent)
    context = trace.set_span_in_context(NonRecordingSpan(parent)) if parent else None
    with _tracer.start_as_current_span(name, context=context) as current:
        yield current


def current_traceparent() -> str:
    """The current span as a ``traceparent`` header, or "" outside of any span."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def current_trace_id() -> str:
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""


def headers() -> dict[str, str]:
    """What to add to the headers of a NATS message or of an HTTP request."""
    traceparent = current_traceparent()
    return {HEADER: traceparent} if traceparent else {}


def metadata() -> tuple[tuple[str, str], ...]:
    """What to add to the metadata of a gRPC call."""
    return tuple(headers().items())


def extract(pairs: Iterable[tuple[str, str | bytes]]) -> str:
    """The well-formed ``traceparent`` among headers or metadata, or ""."""
    for name, value in pairs:
        if name.lower() == HEADER:
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            return text if _FORM.fullmatch(text) else ""
    return ""


def _remote(traceparent: str) -> SpanContext | None:
    match = _FORM.fullmatch(traceparent)
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
