"""Tokens: what is believed, and every hostile form that is not."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.policy import SECOND
from gateway.signing_keys import SigningKey, SigningKeys
from gateway.tokens import AUDIENCE, LEEWAY_SECONDS, LIFE_SECONDS, BadToken, Holder, Tokens

NOON = 1_767_268_800
AT = NOON * SECOND
HOLDER = Holder("cli_1", "ten_1", "tenant_user")
CLAIMS: dict[str, Any] = {
    "iss": "leasehold",
    "aud": AUDIENCE,
    "sub": "cli_1",
    "client_id": "cli_1",
    "tenant": "ten_1",
    "role": "tenant_user",
    "iat": NOON,
    "nbf": NOON,
    "exp": NOON + LIFE_SECONDS,
    "jti": "tok_1",
}


def test_a_token_speaks_for_its_holder_until_it_expires(keys: SigningKeys) -> None:
    tokens = Tokens(keys, "leasehold")
    token = tokens.issue(HOLDER, AT)
    assert tokens.holder(token, AT) == HOLDER
    assert tokens.holder(token, AT + LIFE_SECONDS * SECOND) == HOLDER
    with pytest.raises(BadToken, match="expired"):
        tokens.holder(token, AT + (LIFE_SECONDS + LEEWAY_SECONDS) * SECOND)


def test_a_token_has_the_form_that_was_promised(keys: SigningKeys) -> None:
    token = Tokens(keys, "leasehold").issue(HOLDER, AT)
    header = jwt.get_unverified_header(token)
    assert (header["typ"], header["alg"]) == ("at+jwt", "ES256")
    assert header["kid"] in {key["kid"] for key in keys.key_set()["keys"]}
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims.keys() == CLAIMS.keys()
    assert claims["exp"] - claims["iat"] <= 600
    assert LEEWAY_SECONDS <= 30


def test_the_published_key_checks_a_token_without_us(keys: SigningKeys) -> None:
    token = Tokens(keys, "leasehold").issue(HOLDER, AT)
    published = jwt.PyJWKSet.from_dict(keys.key_set())
    assert jwt.PyJWS().decode(token, published.keys[0], algorithms=["ES256"])


Forge = Callable[[SigningKey], str]


def signed(header: dict[str, Any] | None = None, **claims: Any) -> Forge:
    """Signed with the real key, so that only what is changed can be the reason to refuse."""

    def forge(key: SigningKey) -> str:
        said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not ...}
        head = {"alg": "ES256", "kid": key.kid, "typ": "at+jwt", **(header or {})}
        return raw(key, json.dumps(head), json.dumps(said))

    return forge


def raw(key: SigningKey, header: str, claims: str) -> str:
    """A signature over any text at all, also one that no library would encode."""
    message = f"{segment(header.encode())}.{segment(claims.encode())}"
    algorithm = jwt.get_algorithm_by_name("ES256")
    return f"{message}.{segment(algorithm.sign(message.encode(), key.private))}"


def segment(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(key: SigningKey) -> str:
    header = segment(json.dumps({"alg": "none", "kid": key.kid, "typ": "at+jwt"}).encode())
    return f"{header}.{segment(json.dumps(CLAIMS).encode())}."


def confused(key: SigningKey) -> str:
    """HS256 with the public key as the secret."""
    header = segment(json.dumps({"alg": "HS256", "kid": key.kid, "typ": "at+jwt"}).encode())
    message = f"{header}.{segment(json.dumps(CLAIMS).encode())}"
    public = key.private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return f"{message}.{segment(hmac.new(pem, message.encode(), hashlib.sha256).digest())}"


def by_a_stranger(key: SigningKey) -> str:
    return signed()(SigningKey(key.kid, ec.generate_private_key(ec.SECP256R1()), 0))


def tampered(key: SigningKey) -> str:
    header, _, signature = signed()(key).split(".")
    return f"{header}.{segment(json.dumps({**CLAIMS, 'tenant': 'ten_2'}).encode())}.{signature}"


def with_repeated_claim(key: SigningKey) -> str:
    claims = json.dumps(CLAIMS)[:-1] + ', "tenant": "ten_2"}'
    return raw(key, json.dumps({"alg": "ES256", "kid": key.kid, "typ": "at+jwt"}), claims)


def with_endless_life(key: SigningKey) -> str:
    claims = json.dumps(CLAIMS).replace(str(CLAIMS["exp"]), "1e400")
    return raw(key, json.dumps({"alg": "ES256", "kid": key.kid, "typ": "at+jwt"}), claims)


HOSTILE: dict[str, Forge] = {
    "no signature": unsigned,
    "algorithm confusion": confused,
    "another key under our kid": by_a_stranger,
    "tampered claims": tampered,
    "repeated claim": with_repeated_claim,
    "exp 1e400": with_endless_life,
    "exp Infinity": signed(exp=float("inf")),
    "exp NaN": signed(exp=float("nan")),
    "exp float": signed(exp=float(NOON + 60)),
    "exp text": signed(exp=str(NOON + 60)),
    "exp true": signed(exp=True),
    "exp missing": signed(exp=...),
    "exp past": signed(iat=NOON - 700, nbf=NOON - 700, exp=NOON - 100),
    "lives a day": signed(exp=NOON + 86_400),
    "exp huge": signed(exp=10**400),
    "nbf future": signed(nbf=NOON + 60),
    "iat future": signed(iat=NOON + 60, exp=NOON + 120),
    "iat missing": signed(iat=...),
    "nbf missing": signed(nbf=...),
    "jti missing": signed(jti=...),
    "other issuer": signed(iss="https://evil.example"),
    "issuer missing": signed(iss=...),
    "other audience": signed(aud="other"),
    "several audiences": signed(aud=[AUDIENCE, "other"]),
    "a list of one audience": signed(aud=[AUDIENCE]),
    "audience missing": signed(aud=...),
    "sub not text": signed(sub=5),
    "tenant missing": signed(tenant=...),
    "tenant null": signed(tenant=None),
    "typ JWT": signed({"typ": "JWT"}),
    "typ id token": signed({"typ": "id+jwt"}),
    "typ case": signed({"typ": "AT+JWT"}),
    "unknown kid": signed({"kid": "unknown"}),
    "kid not text": signed({"kid": 1}),
    "kid path": signed({"kid": "../../etc/passwd"}),
    "crit": signed({"crit": ["x"], "x": 1}),
    "jku": signed({"jku": "https://evil.example/jwks.json"}),
    "x5u": signed({"x5u": "https://evil.example/cert.pem"}),
    "embedded jwk": signed({"jwk": {"kty": "EC"}}),
    "b64 false": signed({"b64": False}),
    "alg ES384": signed({"alg": "ES384"}),
    "claims not an object": lambda key: raw(
        key, json.dumps({"alg": "ES256", "kid": key.kid, "typ": "at+jwt"}), "[]"
    ),
    "header not JSON": lambda key: raw(key, "{", json.dumps(CLAIMS)),
    "one part": lambda key: "token",
    "four parts": lambda key: signed()(key) + ".x",
    "empty": lambda key: "",
    "not ASCII": lambda key: "ä.ö.ü",
    "very long": signed(extra="x" * 5000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_token_is_refused(name: str, keys: SigningKeys) -> None:
    with pytest.raises(BadToken):
        Tokens(keys, "leasehold").holder(HOSTILE[name](keys.signing(AT)), AT)


def test_the_same_forging_without_a_change_is_believed(keys: SigningKeys) -> None:
    assert Tokens(keys, "leasehold").holder(signed()(keys.signing(AT)), AT) == HOLDER


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    keys = SigningKeys(tmp_path)
    keys.rotate(AT)
    return keys
