"""Text ids with a prefix that names the kind and a body that sorts by time: ``wl_01j8…``."""

import secrets

from chassis.clock import now

# Crockford's base 32: no letter that reads like a digit, and ASCII order is numeric order.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 11
_RANDOM_DIGITS = 10


def new(prefix: str) -> str:
    return f"{prefix}_{_text(now(), _TIME_DIGITS)}{_text(secrets.randbits(50), _RANDOM_DIGITS)}"


def _text(number: int, digits: int) -> str:
    letters = []
    for _ in range(digits):
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(reversed(letters))
