"""Access tokens: fetched with the client's secret, kept until shortly before they expire."""

import base64
import binascii
import json
import time
from typing import Any
from urllib.parse import quote_plus

from leasehold.called import PROGRAM
from leasehold.cli.client import Client
from leasehold.cli.failures import Exit, Failure, failure_of
from leasehold.cli.profiles import Profile, Profiles, Token

MARGIN_SECONDS = 30


class Tokens:
    def __init__(self, client: Client, profiles: Profiles, name: str, profile: Profile) -> None:
        """``name`` is the profile under which tokens are kept; "" keeps none."""
        self._client = client
        self._profiles = profiles
        self._name = name
        self._profile = profile
        self._token = profiles.token(name) if name else None

    def get(self, fresh: bool = False) -> str:
        if fresh or self._token is None or not self._is_good(self._token):
            self._token = self._fetch()
            if self._name:
                self._profiles.save_token(self._name, self._token)
        return self._token.access_token

    def _is_good(self, token: Token) -> bool:
        mine = (token.client_id, token.gateway_url) == (
            self._profile.client_id,
            self._client.gateway_url,
        )
        return mine and token.expires_at - MARGIN_SECONDS > time.time()

    def _fetch(self) -> Token:
        # RFC 6749 §2.3.1: both are form-encoded before they become HTTP Basic.
        secret = (quote_plus(self._profile.client_id), quote_plus(self._profile.client_secret))
        asked_at = int(time.time())
        response = self._client.form("/oauth/token", {"grant_type": "client_credentials"}, secret)
        if response.status_code == 401:
            raise Failure(
                f"the gateway does not accept the credential {self._profile.client_id}",
                Exit.UNAUTHENTICATED,
                code="INVALID_CLIENT",
                hint=f"log in with one that is in force: {PROGRAM} login",
            )
        if not response.is_success:
            raise failure_of(response)
        answer = response.json()
        return Token(
            answer["access_token"],
            asked_at + int(answer["expires_in"]),
            self._profile.client_id,
            self._client.gateway_url,
        )


def claims(token: str) -> dict[str, Any]:
    """What a token of ours says, to be shown; only the gateway can say whether it is true."""
    try:
        body = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError, binascii.Error):
        return {}
    return found if isinstance(found, dict) else {}
