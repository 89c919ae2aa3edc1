"""JSON read strictly: what two readers could understand differently is refused.

Python's own reader accepts NaN, Infinity and repeated keys, and lets a lone surrogate through
that no other program can store. ``Malformed`` never quotes the document: it may hold a secret.
"""

import json
from typing import Any, NoReturn

from chassis.errors import Invalid

DEPTH_MAX = 20


class Malformed(Invalid):
    default_code = "MALFORMED"


def json_document(data: bytes) -> Any:
    """The value of a JSON text in UTF-8, or Malformed."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_fraction,
        )
    except UnicodeDecodeError:
        raise Malformed("the document is not UTF-8", code="ENCODING") from None
    except RecursionError:
        raise too_deep() from None
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON at line {error.lineno} column {error.colno}") from None
    except ValueError:
        raise Malformed("a number has too many digits") from None
    check_values(value)
    return value


def too_deep() -> Malformed:
    return Malformed(f"the document is nested more than {DEPTH_MAX} deep", code="DEPTH")


def repeated(key: str) -> Malformed:
    return Malformed(f"the key {key[:80]!r} is repeated", code="DUPLICATE_KEY", field=key[:80])


def check_values(value: Any, depth: int = 0) -> None:
    """Refuses depth, and text that cannot be stored: NUL and lone surrogates."""
    if isinstance(value, dict | list):
        if depth >= DEPTH_MAX:
            raise too_deep()
        for item in value.values() if isinstance(value, dict) else value:
            check_values(item, depth + 1)
        if isinstance(value, dict):
            for key in value:
                _check_text(key)
    elif isinstance(value, str):
        _check_text(value)


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Malformed("text holds a NUL character", code="CHARACTER")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Malformed("text holds half of a surrogate pair", code="CHARACTER") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise repeated(key)
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is not a JSON number", code="NUMBER")


def _fraction(text: str) -> float:
    """A float, so that the field it stands in can refuse it by name."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Malformed("a number is out of range", code="NUMBER")
    return value
