"""Access tokens: ES256 JWTs of at most ten minutes (RFC 9068), made and checked here alone.

A library's ``decode`` decides by what the token says about itself; here the algorithm, the type,
the header's members, every claim's type and the single audience are fixed before a claim is
believed. Whether its holder may still act is asked elsewhere, on every request.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import jwt

from chassis import ids
from gateway.policy import SECOND
from gateway.signing_keys import SigningKeys
from gateway.strict import Malformed, json_document

AUDIENCE = "leasehold-api"
LIFE_SECONDS = 600
LEEWAY_SECONDS = 10
CHARACTERS_MAX = 4096

_HEADER = {"alg", "kid", "typ"}
_TYPE = "at+jwt"
_TEXTS = ("iss", "aud", "sub", "tenant", "role", "jti", "client_id")
_TIMES = ("iat", "nbf", "exp")


class BadToken(Exception):
    """Why a token is not believed; for the log, not for whoever sent it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """For whom a token speaks."""

    client_id: str
    tenant_id: str
    role: str


class Tokens:
    def __init__(self, keys: SigningKeys, issuer: str) -> None:
        self._keys = keys
        self._issuer = issuer

    def issue(self, holder: Holder, at: int) -> str:
        key, seconds = self._keys.signing(at), at // SECOND
        claims = {
            "iss": self._issuer,
            "aud": AUDIENCE,
            "sub": holder.client_id,
            "client_id": holder.client_id,
            "tenant": holder.tenant_id,
            "role": holder.role,
            "iat": seconds,
            "nbf": seconds,
            "exp": seconds + LIFE_SECONDS,
            "jti": ids.new("tok"),
        }
        return jwt.encode(claims, key.private, "ES256", headers={"kid": key.kid, "typ": _TYPE})

    def holder(self, token: str, at: int) -> Holder:
        """For whom the token speaks, or BadToken."""
        claims = self._signed(token)
        if fault := claims_fault(claims, issuer=self._issuer, now=at // SECOND):
            raise BadToken(fault)
        return Holder(claims["client_id"], claims["tenant"], claims["role"])

    def _signed(self, token: str) -> dict[str, Any]:
        if len(token) > CHARACTERS_MAX or not token.isascii() or token.count(".") != 2:
            raise BadToken("not a compact JWS")
        header = _json(token.partition(".")[0])
        if header.keys() != _HEADER or header["alg"] != "ES256" or header["typ"] != _TYPE:
            raise BadToken("the header is not one of ours")
        key = self._keys.public(header["kid"]) if isinstance(header["kid"], str) else None
        if key is None:
            raise BadToken("signed with an unknown key")
        try:
            jwt.PyJWS().decode(token, key, algorithms=["ES256"])
        except jwt.InvalidTokenError as error:
            raise BadToken(str(error)) from None
        return _json(token.split(".")[1])


def claims_fault(claims: dict[str, Any], *, issuer: str, now: int) -> str:
    """Why signed claims are not believed, or "". Pure."""
    for name in _TEXTS:
        if type(claims.get(name)) is not str:
            return f"{name} is missing or not text"
    for name in _TIMES:
        if type(claims.get(name)) is not int:  # True and infinities are not times
            return f"{name} is missing or not an integer"
    if claims["iss"] != issuer or claims["aud"] != AUDIENCE:
        return "from another issuer or for another audience"
    if claims["exp"] - claims["iat"] > LIFE_SECONDS:
        return "lives too long"
    if claims["exp"] <= now - LEEWAY_SECONDS:
        return "expired"
    if max(claims["iat"], claims["nbf"]) > now + LEEWAY_SECONDS:
        return "from the future"
    return ""


def _json(segment: str) -> dict[str, Any]:
    try:
        padded = segment + "=" * (-len(segment) % 4)
        value = json_document(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, Malformed):
        raise BadToken("not JSON") from None
    if not isinstance(value, dict):
        raise BadToken("not an object")
    return value
