"""Reading a request: its body with limits, its headers and its query without doubt.

What a client says twice is refused rather than guessed: two proxies would pick differently.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from chassis.errors import Invalid
from gateway.http.problems import TooLarge, TooSlow, Unauthenticated, WrongMediaType
from gateway.http.queries import Query
from gateway.strict import json_document
from gateway.yaml_documents import yaml_document

BODY_BYTES_MAX = 1024 * 1024
BODY_SECONDS = 10
# From here on reading takes long enough to keep others waiting.
LONG_BYTES = 16 * 1024

_READERS = {"application/json": json_document, "application/yaml": yaml_document}
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+)", re.IGNORECASE | re.ASCII)
_KEY = re.compile(r"[!-~]{1,255}", re.ASCII)


def only(headers: Headers, name: str) -> str:
    """The header, or "" if it is absent; Invalid if it was sent more than once."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise Invalid(f"the header {name} is repeated", code="DUPLICATE_HEADER", field=name)
    return values[0] if values else ""


def bearer(headers: Headers) -> str:
    match = _BEARER.fullmatch(only(headers, "authorization"))
    if match is None:
        raise Unauthenticated("this needs an access token: Authorization: Bearer …")
    return match[1]


def idempotency_key(headers: Headers) -> str:
    key = only(headers, "idempotency-key")
    if "idempotency-key" in headers and not _KEY.fullmatch(key):
        raise Invalid(
            "an Idempotency-Key has 1 to 255 visible ASCII characters",
            code="IDEMPOTENCY_KEY",
            field="idempotency-key",
        )
    return key


def query(pairs: Iterable[tuple[str, str]], known: Iterable[Query]) -> Mapping[str, str]:
    """The query's values, each known, well-formed and given once."""
    kinds = {kind.name: kind for kind in known}
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in kinds:
            raise Invalid(f"{name[:80]!r} is no parameter here", code="UNKNOWN_PARAMETER")
        if name in found:
            raise Invalid(f"{name} is given twice", code="DUPLICATE_PARAMETER", field=name)
        if not re.fullmatch(kinds[name].pattern, value, re.ASCII):
            raise Invalid(f"{name}: {kinds[name].description}", code="PARAMETER", field=name)
        found[name] = value
    return found


async def body_bytes(request: Request) -> bytes:
    """The whole body, within its limits of size and time."""
    if only(request.headers, "content-encoding") not in ("", "identity"):
        raise WrongMediaType("compressed bodies are not accepted", code="CONTENT_ENCODING")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > BODY_BYTES_MAX:
                    raise TooLarge(f"a body has at most {BODY_BYTES_MAX} bytes")
    except TimeoutError:
        raise TooSlow(f"the body took more than {BODY_SECONDS} s") from None
    except ClientDisconnect:
        raise TooSlow("the client went away") from None
    return bytes(data)


async def document(request: Request, media: Iterable[str]) -> Any:
    """The body as plain values, read by its content type."""
    kind, _, parameter = only(request.headers, "content-type").partition(";")
    kind = kind.strip().lower()
    if kind not in media or parameter.strip().lower() not in ("", "charset=utf-8"):
        raise WrongMediaType(f"the content type must be {' or '.join(media)}, in UTF-8")
    data = await body_bytes(request)
    if len(data) < LONG_BYTES:
        return _READERS[kind](data)
    return await asyncio.to_thread(_READERS[kind], data)
