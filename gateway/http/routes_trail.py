"""The trail of a lease, from intent to invoice line."""

from typing import Any

from starlette.responses import Response

from gateway.http.calls import rpc
from gateway.http.operations import JSON, Ask, Operation, json_response
from gateway.http.trail import trail
from leasehold.placement.v1.placement_service_pb2 import GetLeaseRequest

_GET = rpc("placement", "GetLease")

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_EVENT: dict[str, Any] = {
    "service": _TEXT,
    "position": {**_NUMBER, "description": "Place in the log of its service."},
    "event_id": _TEXT,
    "topic": _TEXT,
    "at": {**_NUMBER, "description": "When it was recorded, in microseconds UTC."},
    "actor": _TEXT,
    "causation_id": {**_TEXT, "description": "The event or request that it follows from."},
    "aggregate_id": _TEXT,
    "hash": {**_TEXT, "description": "Chain hash of its service's log after it, hex."},
    "data": {"type": "object", "description": "The event as it is stored."},
}
_SCHEMA = {
    "type": "object",
    "required": ["lease_id", "workload_id", "events"],
    "properties": {
        "lease_id": _TEXT,
        "workload_id": _TEXT,
        "events": {
            "type": "array",
            "description": "No effect before its cause.",
            "items": {"type": "object", "required": list(_EVENT), "properties": _EVENT},
        },
    },
}


async def _trail(ask: Ask) -> Response:
    answer = await ask.call(_GET, GetLeaseRequest(lease_id=ask.path["lease_id"]))
    lease = answer.lease
    # A workload is the correlation of all that follows from it.
    events = await trail(ask, lease.workload_id, ask.own_tenant)
    return json_response(
        {
            "lease_id": lease.lease_id,
            "workload_id": lease.workload_id,
            "events": [event.shown() for event in events],
        }
    )


def operations() -> tuple[Operation, ...]:
    return (
        Operation(
            method="GET",
            path="/v1/leases/{lease_id}/trail",
            summary="Tells every event of a lease across all services, in causal order.",
            handle=_trail,
            rpc=_GET,
            answers={JSON: _SCHEMA},
        ),
    )
