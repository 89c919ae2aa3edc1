"""Protobuf of proofs to values and back. Says no to what makes no sense in any state. Pure."""

import re
from collections.abc import Iterable
from typing import Any

from billing.proof.heads import SignedHead
from chassis.errors import Invalid
from chassis.events import Recorded
from leasehold.billing.v1 import proof_service_pb2 as pb

HEADS = 100
HEADS_MAX = 500

_TOKEN = re.compile(r"([0-9]{1,6})\.([0-9]{1,18})", re.ASCII)


def head(found: SignedHead) -> pb.SignedHead:
    return pb.SignedHead(**found.facts())


def keys(found: Iterable[dict[str, Any]]) -> list[pb.PublicKey]:
    return [pb.PublicKey(**key) for key in found]


def proven(row: Recorded, path: Iterable[bytes]) -> pb.ProvenEvent:
    return pb.ProvenEvent(
        position=row.position, data=row.data.decode(), path=[hash_.hex() for hash_ in path]
    )


def heads_page(request: pb.ListSignedHeadsRequest) -> int:
    if request.page_size < 0 or request.after < 0:
        raise Invalid("after and page_size are at least 0", code="PAGE")
    return min(request.page_size or HEADS, HEADS_MAX)


def size(given: int, field: str) -> int:
    if given < 0:
        raise Invalid(f"{field} is at least 0", code="SIZE", field=field)
    return given


def page_token(text: str) -> tuple[int, int]:
    """Which subject of the proof comes next, and after which position."""
    if not text:
        return 0, 0
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise Invalid("page_token is not one of ours", code="CURSOR", field="page_token")
    return int(match[1]), int(match[2])
