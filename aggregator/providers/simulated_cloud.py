"""The adapter for the simulated provider, over the HTTP API that it speaks.

Answers are not trusted: sizes, shapes and amounts are checked, and what does not fit the model is
``Unclear`` for a change and a partial list for a listing.
"""

from typing import Any

import httpx

from aggregator.policy import Inventory, Machine, Offer
from aggregator.providers import Busy, Rejected, Unclear

BODY_BYTES_MAX = 1_000_000
PAGES_MAX = 1_000
NANOS = 1_000_000_000
STATUSES = {"running", "starting", "stopping"}


class SimulatedCloud:
    def __init__(self, endpoint: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=endpoint,
            timeout=httpx.Timeout(5, connect=3),
            follow_redirects=False,
            trust_env=False,
        )

    async def offers(self) -> list[Offer]:
        body = await self._ask("GET", "/v1/offers")
        return [_offer(item) for item in _list(body, "offers")]

    async def create(self, offer: str, tag: str) -> Machine:
        return _machine(await self._ask("POST", "/v1/instances", json={"offer": offer, "tag": tag}))

    async def find(self, tag: str) -> Machine | None:
        """The machine with this tag, or None when a complete list does not have it."""
        found = await self._listed({"tag": tag})
        if not found.complete:
            raise Unclear("the provider's list is partial")
        return next((machine for machine in found.machines if machine.tag == tag), None)

    async def inventory(self) -> Inventory:
        return await self._listed({})

    async def delete(self, provider_id: str) -> None:
        try:
            await self._ask("DELETE", f"/v1/instances/{provider_id}")
        except Rejected:
            # Gone already, or never there; the inventory decides, not this answer.
            return

    async def close(self) -> None:
        await self._client.aclose()

    async def _listed(self, query: dict[str, str]) -> Inventory:
        machines: list[Machine] = []
        cursor = ""
        for _ in range(PAGES_MAX):
            try:
                body = await self._ask("GET", "/v1/instances", params={**query, "cursor": cursor})
                machines += [_machine(item) for item in _list(body, "instances")]
            except Unclear:
                return Inventory(tuple(machines), complete=False)
            following = body.get("next_cursor", "")
            if not following:
                return Inventory(tuple(machines), complete=True)
            if following == cursor:
                break
            cursor = str(following)
        return Inventory(tuple(machines), complete=False)

    async def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            answer = await self._client.request(method, path, **options)
        except httpx.HTTPError as error:
            raise Unclear(f"{method} {path}: {type(error).__name__}") from error
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise Busy("the provider limits our rate", _seconds(answer.headers.get("retry-after")))
        if answer.status_code >= 500:
            raise Unclear(f"{method} {path}: status {answer.status_code}")
        if answer.status_code >= 400:
            raise Rejected(f"{method} {path}: {answer.text[:200]}")
        if len(answer.content) > BODY_BYTES_MAX:
            raise Unclear(f"{method} {path}: the answer is too large")
        if answer.status_code == httpx.codes.NO_CONTENT:
            return {}
        try:
            body = answer.json()
        except ValueError:
            raise Unclear(f"{method} {path}: the answer is not JSON") from None
        if not isinstance(body, dict):
            raise Unclear(f"{method} {path}: the answer is not an object")
        return body


def _list(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = body.get(name)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unclear(f"the answer has no list of {name}")
    return items


def _machine(item: dict[str, Any]) -> Machine:
    if (
        not isinstance(item.get("id"), str)
        or not item["id"]
        or not isinstance(item.get("tag"), str)
    ):
        raise Unclear("a machine without id or tag")
    status = item.get("status")
    return Machine(
        provider_id=item["id"],
        tag=item["tag"],
        status=status if status in STATUSES else "unknown",
        price_nanos_per_hour=_price(item),
        currency=str(item.get("currency", "")),
        gpu_model=str(item.get("gpu_model", "")),
        gpu_count=item["gpus"] if type(item.get("gpus")) is int else 0,
    )


def _offer(item: dict[str, Any]) -> Offer:
    if not isinstance(item.get("name"), str) or not isinstance(item.get("gpus"), int):
        raise Unclear("an offer without name or gpus")
    return Offer(
        offer=item["name"],
        gpu_model=str(item.get("gpu_model", "")),
        gpu_count=item["gpus"],
        price_nanos_per_hour=_price(item),
        currency=str(item.get("currency", "")),
        available=item.get("available") is True,
    )


def _price(item: dict[str, Any]) -> int:
    """Prices come as decimal text, such as "1.99"; exact, and never negative."""
    whole, _, fraction = str(item.get("price_per_hour", "")).partition(".")
    if not whole.isascii() or not whole.isdigit() or len(whole) > 6:
        raise Unclear(f"a price that is no price: {item.get('price_per_hour')!r}")
    if fraction and not (fraction.isascii() and fraction.isdigit() and len(fraction) <= 9):
        raise Unclear(f"a price that is no price: {item.get('price_per_hour')!r}")
    return int(whole) * NANOS + int(fraction.ljust(9, "0") or 0)


def _seconds(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 1
