"""Where money for a lease comes from, and where what is left of it goes back to. Pure.

Promotional money is spent first, what expires soonest before all other; then what is prepaid;
then credit. What a lease did not spend goes back the other way round.
"""

from collections.abc import Mapping
from typing import Any


def available(*, prepaid: int, promo: int, limit: int, owed: int) -> int:
    """What a tenant can still set aside; nothing once the limit is reached or passed."""
    return max(0, prepaid + promo + limit - owed)


def drawn(amount: int, grants: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """What each promotional grant pays of an amount, as far as they reach."""
    taken: dict[str, int] = {}
    for grant_id in sorted(grants, key=lambda name: (grants[name]["expires_at"], name)):
        part = min(amount - sum(taken.values()), grants[grant_id]["left_nanos"])
        if part:
            taken[grant_id] = part
    return taken


def returned(unspent: int, fed: int, promo: Mapping[str, int]) -> dict[str, int]:
    """What goes back to each grant of what a hold was fed with and did not spend."""
    left = max(0, unspent - (fed - sum(promo.values())))
    back: dict[str, int] = {}
    for grant_id in sorted(promo, reverse=True):
        if part := min(left, promo[grant_id]):
            back[grant_id] = part
            left -= part
    return back
