"""A simulated GPU cloud: a real HTTP server with a made-up inventory, and bad days on demand.

It says that it is simulated in every answer. It misbehaves as real providers do: answers that
are lost after the VM was made, errors, rate limits, partial pages. Faults are set with
``PUT /faults`` and used up one call at a time, so that a test decides when they happen.
"""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chassis import ids, logs
from chassis.settings import Settings, load_or_exit

PAGE = 2
OFFERS = [
    {
        "name": "h100x8",
        "gpu_model": "H100",
        "gpus": 8,
        "price_per_hour": "15.92",
        "currency": "USD",
        "available": True,
    },
    {
        "name": "a100x8",
        "gpu_model": "A100",
        "gpus": 8,
        "price_per_hour": "8.80",
        "currency": "USD",
        "available": True,
    },
    {
        "name": "h200x8",
        "gpu_model": "H200",
        "gpus": 8,
        "price_per_hour": "24.40",
        "currency": "USD",
        "available": False,
    },
]
# What can go wrong, and for how many of the next calls it will.
FAULTS = ("lose_answer", "server_error", "rate_limit", "partial_page", "not_json")


@dataclass(frozen=True, kw_only=True)
class ProviderSettings(Settings):
    provider_port: int
    provider_file: Path
    host: str = "127.0.0.1"


class Cloud:
    """The inventory, kept in a file: a real provider does not forget VMs when it restarts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.machines: dict[str, dict[str, Any]] = (
            json.loads(file.read_text()) if file.exists() else {}
        )
        self.faults = dict.fromkeys(FAULTS, 0)

    def fault(self, name: str) -> bool:
        """Whether this fault happens now; each happens as often as it was asked for."""
        self.faults[name], happens = max(0, self.faults[name] - 1), self.faults[name] > 0
        return happens

    def create(self, offer: dict[str, Any], tag: str) -> dict[str, Any]:
        machine = {
            "id": ids.new("vm"),
            "tag": tag,
            "status": "running",
            "offer": offer["name"],
            "gpu_model": offer["gpu_model"],
            "gpus": offer["gpus"],
            "price_per_hour": offer["price_per_hour"],
            "currency": offer["currency"],
        }
        self.machines[machine["id"]] = machine
        self._keep()
        return machine

    def delete(self, machine_id: str) -> bool:
        found = self.machines.pop(machine_id, None) is not None
        self._keep()
        return found

    def _keep(self) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(self.machines))
        os.replace(draft, self._file)


class Announced:
    """Says in every answer what this is."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def announce(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-simulated", b"true"))
            await send(message)

        await self._app(scope, receive, announce)


def application(cloud: Cloud) -> Starlette:
    async def offers(request: Request) -> Response:
        return _troubled(cloud) or JSONResponse({"offers": OFFERS})

    async def create(request: Request) -> Response:
        if trouble := _troubled(cloud):
            return trouble
        asked = await request.json()
        offer = next((one for one in OFFERS if one["name"] == asked.get("offer")), None)
        if offer is None or not isinstance(asked.get("tag"), str):
            return JSONResponse({"error": "no such offer, or no tag"}, 400)
        if not offer["available"]:
            return JSONResponse({"error": "sold out"}, 409)
        machine = cloud.create(offer, asked["tag"])
        if cloud.fault("lose_answer"):
            return JSONResponse({"error": "gateway timeout"}, 504)
        return JSONResponse(machine, 201)

    async def listed(request: Request) -> Response:
        if trouble := _troubled(cloud):
            return trouble
        tag, start = request.query_params.get("tag"), request.query_params.get("cursor") or "0"
        machines = [one for one in cloud.machines.values() if tag in (None, "", one["tag"])]
        page = machines[int(start) : int(start) + PAGE]
        following = str(int(start) + PAGE) if int(start) + PAGE < len(machines) else ""
        if cloud.fault("partial_page"):
            return JSONResponse({"error": "upstream"}, 502)
        return JSONResponse({"instances": page, "next_cursor": following})

    async def delete(request: Request) -> Response:
        if trouble := _troubled(cloud):
            return trouble
        found = cloud.delete(request.path_params["id"])
        return Response(status_code=204) if found else JSONResponse({"error": "no such id"}, 404)

    async def faults(request: Request) -> Response:
        asked = await request.json()
        cloud.faults.update({name: int(asked[name]) for name in FAULTS if name in asked})
        return JSONResponse(cloud.faults)

    return Starlette(
        routes=[
            Route("/v1/offers", offers),
            Route("/v1/instances", create, methods=["POST"]),
            Route("/v1/instances", listed),
            Route("/v1/instances/{id}", delete, methods=["DELETE"]),
            Route("/faults", faults, methods=["PUT"]),
        ],
        middleware=[Middleware(Announced)],
    )


def _troubled(cloud: Cloud) -> Response | None:
    if cloud.fault("server_error"):
        return JSONResponse({"error": "internal"}, 500)
    if cloud.fault("rate_limit"):
        return JSONResponse({"error": "slow down"}, 429, {"retry-after": "1"})
    if cloud.fault("not_json"):
        return Response("<html>maintenance</html>", media_type="text/html")
    return None


if __name__ == "__main__":
    settings = load_or_exit(ProviderSettings)
    logs.configure("provider")
    logging.getLogger(__name__).warning("this provider is simulated: it has no GPUs")
    uvicorn.run(
        application(Cloud(settings.provider_file)),
        host=settings.host,
        port=settings.provider_port,
        log_config=None,
        access_log=False,
    )
