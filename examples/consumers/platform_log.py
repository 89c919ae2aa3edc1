"""Reading billing's log from outside: the address and the certificate of a local platform, Replay.

``make up`` leaves in the state folder where billing listens and a certificate of the operator's.
Elsewhere an operator gives finance a certificate of its own; nothing else changes.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from leasehold.chassis.v1.event_pb2 import RecordedEvent
from leasehold.chassis.v1.log_service_pb2 import ReplayRequest
from leasehold.chassis.v1.log_service_pb2_grpc import LogServiceStub

GENESIS = bytes(32)


class BrokenChain(Exception):
    """What the log says now is not the continuation of what it said before."""


@contextmanager
def billing(state: Path) -> Iterator[LogServiceStub]:
    """The log of billing of the platform whose state folder this is."""
    address = json.loads((state / "platform.json").read_text())["peers"]["billing"]
    with connected(address, state / "identity" / "operator") as log:
        yield log


@contextmanager
def connected(address: str, identity: Path) -> Iterator[LogServiceStub]:
    trust, key, chain = (
        (identity / name).read_bytes() for name in ("ca.pem", "key.pem", "cert.pem")
    )
    credentials = grpc.ssl_channel_credentials(trust, key, chain)
    options = [("grpc.ssl_target_name_override", "billing"), ("grpc.enable_http_proxy", 0)]
    with grpc.secure_channel(address, credentials, options=options) as channel:
        yield LogServiceStub(channel)


def checked(log: LogServiceStub, position: int, head: bytes) -> Iterator[list[RecordedEvent]]:
    """The events after a position, page by page, each proven to continue what came before.

    ``head`` is the hash at that position. A log that was changed anywhere before it has another
    hash there, so keeping one position and one hash is enough to notice.
    """
    for page in log.Replay(ReplayRequest(after=position), timeout=600):
        for event in page.events:
            head = hashlib.sha256(head + event.data).digest()
            if event.position != position + 1 or event.hash != head:
                raise BrokenChain(f"event {event.position} does not continue event {position}")
            position = event.position
        yield list(page.events)
