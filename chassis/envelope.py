"""An event as a message on the bus: CloudEvents 1.0, binary mode. Pure.

The data is the stored bytes, untouched. What a consumer trusts is the chain (position, hash of
everything before it and of these bytes) under a seal (``chassis/seal.py``); the other headers are
for people and for routing, and nothing is decided by them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from chassis import canonical
from chassis.events import Recorded, event_id

MESSAGE_ID = "Nats-Msg-Id"
SEAL, SEALER = "ce-seal", "ce-sealer"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_IN_A_TOKEN = re.compile(r"[^A-Za-z0-9_:-]")
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Malformed(ValueError):
    """A message on the bus that no relay has written."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose log it is, and which incarnation of the database holds it."""

    service: str
    shard: int
    incarnation: str

    def message_id(self, event: Recorded) -> str:
        # With the hash, nobody can take the name of an event before it is recorded: the server
        # would drop the event as a repeat.
        place = f"{self.service}:{self.shard}:{self.incarnation}:{event.position}"
        return f"{place}:{event.hash.hex()}"


@dataclass(frozen=True, slots=True)
class Envelope:
    prev: int
    incarnation: str
    event: Recorded
    # The signature and the certificate it is by, in base64; empty on a message without.
    seal: str = ""
    sealer: str = ""


def subject(event: Recorded) -> str:
    """``evt.v1.<service>.<aggregate>.<event>.<tenant or _>.<id>``, always seven tokens."""
    service, aggregate, name = [*event.topic.split(".", 2), "", ""][:3]
    tokens = (service, aggregate, name, event.tenant_id, event.aggregate_id)
    return ".".join(["evt", "v1", *(_NOT_IN_A_TOKEN.sub("_", token) or "_" for token in tokens)])


def headers(origin: Origin, event: Recorded) -> dict[str, str]:
    at = _EPOCH + timedelta(microseconds=canonical.loads(event.data)["meta"]["at"])
    named = {
        "ce-specversion": "1.0",
        "ce-id": event_id(origin.service, origin.shard, event.position),
        "ce-source": f"/leasehold/{origin.service}/{origin.shard}",
        "ce-type": event.topic,
        "ce-subject": _text(event.aggregate_id),
        "ce-time": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "content-type": "application/json",
        "ce-position": str(event.position),
        "ce-prev": str(event.position - 1),
        "ce-hash": event.hash.hex(),
        "ce-incarnation": origin.incarnation,
        MESSAGE_ID: origin.message_id(event),
    }
    if event.correlation_id:
        named["ce-correlationid"] = _text(event.correlation_id)
    if event.traceparent:
        named["traceparent"] = event.traceparent
    return named


def opened(source: str, found: Mapping[str, str] | None, data: bytes) -> Envelope:
    """The event in a message that claims to be of ``source``, or Malformed."""
    found = found or {}
    try:
        meta = canonical.loads(data)["meta"]
        return Envelope(
            prev=_number(found, "ce-prev"),
            incarnation=found["ce-incarnation"],
            event=Recorded(
                position=_number(found, "ce-position"),
                aggregate_id=_typed(meta, "aggregate_id", str),
                version=_typed(meta, "version", int),
                topic=_topic(source, _typed(meta, "topic", str)),
                tenant_id=_typed(meta, "tenant_id", str),
                correlation_id=_typed(meta, "correlation_id", str),
                traceparent=found.get("traceparent", ""),
                data=data,
                hash=bytes.fromhex(_matching(_HASH, found["ce-hash"])),
            ),
            seal=found.get(SEAL, ""),
            sealer=found.get(SEALER, ""),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"not an event of {source}: {error!r}") from None


def _number(found: Mapping[str, str], name: str) -> int:
    return int(_matching(_NUMBER, found[name]))


def _matching(form: re.Pattern[str], text: str) -> str:
    if not form.fullmatch(text):
        raise ValueError(text[:80])
    return text


def _typed(meta: Any, name: str, kind: type[Any]) -> Any:
    if type(meta[name]) is not kind:
        raise TypeError(f"meta.{name} is not {kind.__name__}")
    return meta[name]


def _topic(source: str, topic: str) -> str:
    if not topic.startswith(f"{source}."):
        raise ValueError(f"{topic[:80]} is of another service")
    return topic


def _text(value: str) -> str:
    """A header's value; as the HTTP binding does, what does not fit is percent-encoded."""
    return value if value.isascii() and value.isprintable() else quote(value)
