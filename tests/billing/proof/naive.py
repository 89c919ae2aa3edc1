"""RFC 6962 written down as its section 2.1 reads: recursive, over whole lists of data.

It shares no line with billing's tree, so that the two cannot be wrong together.
"""

import hashlib
from collections.abc import Sequence


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def mth(data: Sequence[bytes]) -> bytes:
    if not data:
        return sha(b"")
    if len(data) == 1:
        return sha(bytes([0]) + data[0])
    k = largest_power_below(len(data))
    return sha(bytes([1]) + mth(data[:k]) + mth(data[k:]))


def path(m: int, data: Sequence[bytes]) -> list[bytes]:
    if len(data) == 1:
        return []
    k = largest_power_below(len(data))
    if m < k:
        return [*path(m, data[:k]), mth(data[k:])]
    return [*path(m - k, data[k:]), mth(data[:k])]


def proof(m: int, data: Sequence[bytes]) -> list[bytes]:
    return subproof(m, data, True)


def subproof(m: int, data: Sequence[bytes], complete: bool) -> list[bytes]:
    if m == len(data):
        return [] if complete else [mth(data)]
    k = largest_power_below(len(data))
    if m <= k:
        return [*subproof(m, data[:k], complete), mth(data[k:])]
    return [*subproof(m - k, data[k:], False), mth(data[:k])]


def largest_power_below(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k
