"""Tokens for client credentials (RFC 6749 §4.4), and the keys to check them with.

Errors here have OAuth's own form, because OAuth's own clients read them. Why a client was
refused is not said: whoever guesses learns nothing.
"""

import base64
import binascii
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote_plus

from starlette.responses import Response

from gateway.http import incoming
from gateway.http.operations import JSON, Ask, Operation, json_response
from gateway.http.sessions import Sessions
from gateway.policy import TOKEN_RATE
from gateway.signing_keys import CACHE_SECONDS, SigningKeys
from gateway.tokens import LIFE_SECONDS

FORM = "application/x-www-form-urlencoded"
_FIELDS_MAX = 10

_TOKEN_SCHEMA = {
    "type": "object",
    "required": ["access_token", "token_type", "expires_in"],
    "properties": {
        "access_token": {"type": "string"},
        "token_type": {"const": "Bearer"},
        "expires_in": {"type": "integer"},
    },
}
_KEYS_SCHEMA = {
    "type": "object",
    "required": ["keys"],
    "properties": {"keys": {"type": "array", "items": {"type": "object"}}},
}


class _Refusal(Exception):
    """An OAuth error: its name, and what is wrong with the request."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(error)
        self.error = error
        self.description = description


def operations(
    sessions: Sessions, keys: SigningKeys, now: Callable[[], int]
) -> tuple[Operation, ...]:
    async def token(ask: Ask) -> Response:
        try:
            client_id, secret = _client(ask, await _form(ask))
            issued = sessions.token(client_id, secret, now())
            if issued is None:
                raise _Refusal("invalid_client", "unknown client, wrong secret, or suspended")
        except _Refusal as refusal:
            return _refused(refusal)
        return json_response(
            {"access_token": issued, "token_type": "Bearer", "expires_in": LIFE_SECONDS}
        )

    async def key_set(ask: Ask) -> Response:
        cached = {"Cache-Control": f"public, max-age={CACHE_SECONDS}"}
        return json_response(keys.key_set(), headers=cached)

    return (
        Operation(
            method="POST",
            path="/oauth/token",
            summary="Trades a client's id and secret for an access token of ten minutes.",
            handle=token,
            rate=TOKEN_RATE,
            answers={JSON: _TOKEN_SCHEMA},
        ),
        Operation(
            method="GET",
            path="/.well-known/jwks.json",
            summary="Publishes the keys that access tokens are signed with.",
            handle=key_set,
            answers={JSON: _KEYS_SCHEMA},
        ),
    )


async def _form(ask: Ask) -> dict[str, str]:
    kind = incoming.only(ask.request.headers, "content-type").partition(";")[0].strip().lower()
    if kind != FORM:
        raise _Refusal("invalid_request", f"the content type must be {FORM}")
    data = await incoming.body_bytes(ask.request)
    try:
        pairs = parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError:
        raise _Refusal("invalid_request", "the body is not a form") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise _Refusal("invalid_request", "a parameter is repeated")
    if "grant_type" not in form:
        raise _Refusal("invalid_request", "grant_type is missing")
    if form["grant_type"] != "client_credentials":
        raise _Refusal("unsupported_grant_type", "only client_credentials is supported")
    return form


def _client(ask: Ask, form: dict[str, str]) -> tuple[str, str]:
    """Id and secret, from the one place where the client put them."""
    header = incoming.only(ask.request.headers, "authorization")
    if not header:
        return form.get("client_id", ""), form.get("client_secret", "")
    if "client_secret" in form:
        raise _Refusal("invalid_request", "the client authenticates twice")
    scheme, _, encoded = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError(scheme)
        text = base64.b64decode(encoded.strip(), validate=True).decode()
        client_id, _, secret = text.partition(":")
        return unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict")
    except (binascii.Error, ValueError):
        raise _Refusal("invalid_client", "the Authorization header is not HTTP Basic") from None


def _refused(refusal: _Refusal) -> Response:
    unknown = refusal.error == "invalid_client"
    headers = {"WWW-Authenticate": 'Basic realm="leasehold"'} if unknown else {}
    body = {"error": refusal.error, "error_description": refusal.description}
    return json_response(body, 401 if unknown else 400, headers)
