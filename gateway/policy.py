"""The rules of tenancy: names, roles, how many of each, and how fast. Pure.

``ACTING_ROLES`` are the roles other services decide by; a credential's role never leaves the
gateway under another name.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

SECOND = 1_000_000

# What a credential may be, and the role its holder acts in.
ACTING_ROLES = {"viewer": "tenant_viewer", "user": "tenant_user", "admin": "tenant_admin"}

PROJECTS_MAX = 100
CREDENTIALS_MAX = 50
REASON_CHARACTERS_MAX = 200

# Names reach labels, paths and metrics, so they are plain everywhere.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def project_refusal(projects: Collection[str]) -> str:
    """Why no further project may be opened, or "" if one may."""
    return "PROJECTS_MAX" if len(projects) >= PROJECTS_MAX else ""


def issue_refusal(credentials: Mapping[str, Any]) -> str:
    """Why no further credential may be issued, or "" if one may."""
    return "CREDENTIALS_MAX" if len(credentials) >= CREDENTIALS_MAX else ""


def revoke_refusal(roles: Mapping[str, str], client_id: str) -> str:
    """Why this credential must stay, or "": without an admin a tenant could not help itself."""
    others = [role for other, role in roles.items() if other != client_id]
    return "LAST_ADMIN" if roles[client_id] == "admin" and "admin" not in others else ""


@dataclass(frozen=True, slots=True)
class Rate:
    """Some requests at once, and then so many per second."""

    per_second: int
    burst: int


# Before anyone is known; after; and where a request costs more than its answer.
ADDRESS_RATE = Rate(per_second=200, burst=400)
TENANT_RATE = Rate(per_second=50, burst=100)
TOKEN_RATE = Rate(per_second=10, burst=50)
SIGN_UP_RATE = Rate(per_second=1, burst=20)


def passage(rate: Rate, due: int, at: int) -> tuple[int, int]:
    """The generic cell rate algorithm: when the next request is due, and how long to wait.

    ``due`` is what the last passage answered (0 at first). A wait of 0 lets the request pass;
    a refused one leaves ``due`` as it was, so that hammering does not prolong the wait.
    """
    interval = SECOND // rate.per_second
    next_due = max(due, at) + interval
    wait = next_due - at - interval * rate.burst
    return (due, wait) if wait > 0 else (next_due, 0)
