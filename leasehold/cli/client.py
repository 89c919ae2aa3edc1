"""Asking the gateway: JSON over HTTP, an access token on each call, retries that do nothing twice.

Whatever changes something carries an idempotency key, and a call that failed on its way is sent
again with the same key; the gateway answers a repetition with the first answer. Without that, a
retry after a lost answer would submit or charge again.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from leasehold.called import PROGRAM
from leasehold.cli.addresses import checked_url, is_local
from leasehold.cli.failures import Exit, Failure, failure_of

PAUSES = (0.2, 0.4, 0.8, 1.6)
RETRY_AFTER_SECONDS_MAX = 10.0
PAGE_SIZE = 500

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_PASSING = {429, 502, 503, 504}

# The token to send; True asks for a new one because the last was refused.
Authorise = Callable[[bool], str]


class Client:
    def __init__(self, gateway_url: str, pause: Callable[[float], None] = time.sleep) -> None:
        self.gateway_url = checked_url(gateway_url)
        self.authorise: Authorise | None = None
        self._pause = pause
        # Nothing stands between this machine and itself; elsewhere a proxy may be needed.
        self._http = httpx.Client(
            base_url=self.gateway_url,
            timeout=_TIMEOUT,
            trust_env=not is_local(self.gateway_url),
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return _json(self.call("GET", path, params=_given(query)))

    def change(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> dict[str, Any]:
        """A call that changes something, done at most once."""
        body = {} if document is None else {"json": document}
        key = key or new_key()
        return _json(
            self.call(method, path, params=_given(query), key=key, headers=headers, **body)
        )

    def pages(self, path: str, field: str, **query: str) -> Iterator[dict[str, Any]]:
        """Every item of a list, page by page."""
        token = ""
        while True:
            answer = self.get(path, page_size=str(PAGE_SIZE), page_token=token, **query)
            yield from answer[field]
            token = answer.get("next_page_token", "")
            if not token:
                return

    def call(
        self,
        method: str,
        path: str,
        *,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        **parts: Any,
    ) -> httpx.Response:
        """The successful answer, or the Failure that it describes."""
        sent = {**(headers or {}), **({"Idempotency-Key": key} if key else {})}

        def attempt(fresh: bool) -> httpx.Response:
            request = self._http.build_request(
                method, path, headers={**sent, **self._authorisation(fresh)}, **parts
            )
            return self.send(request, key)

        response = attempt(False)
        if response.status_code == 401 and self.authorise is not None:
            response = attempt(True)
        if response.is_success:
            return response
        raise failure_of(response)

    def send(self, request: httpx.Request, key: str = "") -> httpx.Response:
        """The gateway's answer; what fails in passing is tried again, a bounded number of times."""
        reached = False
        for pause in (*PAUSES, None):
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                reached = reached or not isinstance(error, httpx.ConnectError)
                trouble = self._silence(error, key if reached else "")
            else:
                if response.status_code not in _PASSING:
                    return response
                reached = True
                trouble = _unsettled(failure_of(response), key)
                pause = pause and max(pause, _retry_after(response))
            if pause is None:
                raise trouble
            self._pause(pause)
        raise AssertionError("the last attempt raises")

    def form(self, path: str, fields: Mapping[str, str], auth: tuple[str, str]) -> httpx.Response:
        """A form with HTTP Basic credentials, as OAuth wants it."""
        request = self._http.build_request("POST", path, data=fields)
        return self.send(next(httpx.BasicAuth(*auth).auth_flow(request)))

    @contextmanager
    def stream(
        self,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        *,
        timeout: httpx.Timeout = _TIMEOUT,
    ) -> Iterator[httpx.Response]:
        """An answer that is read as it comes. Not retried: only the reader knows how far it got."""
        for fresh in (False, True):
            sent = {**(headers or {}), **self._authorisation(fresh)}
            with self._http.stream(
                "GET", path, params=query, headers=sent, timeout=timeout
            ) as response:
                if response.is_success:
                    yield response
                    return
                response.read()
            if response.status_code != 401:
                break
        raise failure_of(response)

    def _authorisation(self, fresh: bool) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.authorise(fresh)}"} if self.authorise else {}

    def _silence(self, error: httpx.TransportError, key: str) -> Failure:
        reason = str(error) or type(error).__name__
        failure = Failure(
            f"the gateway at {self.gateway_url} does not answer ({reason})",
            Exit.UNAVAILABLE,
            code="GATEWAY_AWAY",
            hint=f"start the platform with `{PROGRAM} up`, or name its gateway with --gateway",
        )
        return _unsettled(failure, key)


def new_key() -> str:
    return f"cli-{secrets.token_hex(16)}"


def _unsettled(failure: Failure, key: str) -> Failure:
    """If it may have been done, the way to find out is to ask again with the same key."""
    if key:
        failure.message += "; whether it was done is not known"
        failure.hint = f"repeat the command with --key {key}: then it is done at most once"
        failure.details["idempotency_key"] = key
    return failure


def _retry_after(response: httpx.Response) -> float:
    said = response.headers.get("retry-after", "")
    return min(float(said), RETRY_AFTER_SECONDS_MAX) if said.isdecimal() else 0.0


def _given(query: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value}


def _json(response: httpx.Response) -> dict[str, Any]:
    if response.status_code == 204:
        return {}
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Failure(
            f"{response.url} is no Leasehold gateway",
            Exit.UNAVAILABLE,
            code="NOT_A_GATEWAY",
            hint="check the address given with --gateway",
        )
    return found
