"""The query parameters of the API, and the opaque cursors that page through lists."""

import base64
import binascii
from dataclasses import dataclass

from chassis.errors import Invalid

PAGE_SIZE_DEFAULT = 100
# What every id in a path looks like; anything else cannot exist.
ID_PATTERN = r"[a-z]{2,8}_[a-z0-9_]{1,100}"


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter; ``description`` is shown to whoever gets it wrong."""

    name: str
    pattern: str
    description: str


TENANT = Query("tenant", r"ten_[a-z0-9_]{1,64}", "id of a tenant; for operators and finance")
PAGE_SIZE = Query(
    "page_size", r"[1-9]|[1-9][0-9]|[1-4][0-9]{2}|500", "how many to list at most, 1 to 500"
)
PAGE_TOKEN = Query(
    "page_token", r"[A-Za-z0-9_-]{1,512}", "next_page_token of the page before, unchanged"
)
FOLLOW = Query("follow", r"true|false", "true to stay until the workload has ended")
OFFSET = Query("offset", r"0|[1-9][0-9]{0,15}", "first byte wanted, from 0")

PAGED = (PAGE_SIZE, PAGE_TOKEN)


def cursor(listing: str, token: str) -> str:
    """What a client sees of a page token: opaque, and good for one listing only."""
    if not token:
        return ""
    return base64.urlsafe_b64encode(f"{listing}:{token}".encode()).rstrip(b"=").decode()


def page_token(listing: str, cursor: str) -> str:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        kind, _, token = base64.b64decode(padded, b"-_", validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        kind = token = ""
    if cursor and (kind != listing or not token):
        raise Invalid(f"page_token: {PAGE_TOKEN.description}", code="CURSOR", field="page_token")
    return token
