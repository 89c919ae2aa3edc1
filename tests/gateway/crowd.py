"""All stand-ins as servicers, each with its log: every method there is gets some answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from chassis.rpc import Servicer
from leasehold.admission.v1 import admission_service_pb2 as admission
from leasehold.admission.v1 import admission_service_pb2_grpc
from leasehold.aggregator.v1 import aggregator_service_pb2 as aggregator
from leasehold.aggregator.v1 import aggregator_service_pb2_grpc
from leasehold.billing.v1 import billing_service_pb2 as billing
from leasehold.billing.v1 import (
    billing_service_pb2_grpc,
    exports_service_pb2,
    exports_service_pb2_grpc,
    funding_service_pb2,
    funding_service_pb2_grpc,
    pricing_service_pb2,
    pricing_service_pb2_grpc,
    proof_service_pb2,
    proof_service_pb2_grpc,
    provider_service_pb2,
    provider_service_pb2_grpc,
)
from leasehold.chassis.v1 import log_service_pb2, log_service_pb2_grpc
from leasehold.chassis.v1.event_pb2 import RecordedEvent
from leasehold.enforcement.v1 import enforcement_service_pb2 as enforcement
from leasehold.enforcement.v1 import enforcement_service_pb2_grpc
from leasehold.placement.v1 import placement_service_pb2 as placement
from leasehold.placement.v1 import placement_service_pb2_grpc
from tests.gateway.standins import Admission, Billing, Metadata, Placement

Context = grpc.aio.ServicerContext


class Log:
    """The log of a service; ``events`` is what it holds."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []

    async def Replay(
        self, request: log_service_pb2.ReplayRequest, context: Context
    ) -> AsyncIterator[log_service_pb2.ReplayResponse]:
        for event in self.events:
            if event.correlation_id != request.correlation_id:
                continue
            if request.tenant_id in ("", event.tenant_id):
                yield log_service_pb2.ReplayResponse(events=[event])


class StandIns:
    def __init__(self) -> None:
        self.metadata = Metadata()
        self.admission = Admission(self.metadata)
        self.placement = Placement()
        self.billing = Billing()
        self.logs = {name: Log() for name in SERVICES}

    def servicers(self, name: str) -> list[Servicer]:
        wise = getattr(self, name, None)
        log = _complete(log_service_pb2.DESCRIPTOR.services_by_name["LogService"], self.logs[name])
        return [
            *(_servicer(module, pb, wise) for module, pb in SERVICES[name]),
            (log_service_pb2_grpc.add_LogServiceServicer_to_server, log),
        ]


SERVICES = {
    "admission": [(admission_service_pb2_grpc, admission)],
    "aggregator": [(aggregator_service_pb2_grpc, aggregator)],
    "billing": [
        (billing_service_pb2_grpc, billing),
        (exports_service_pb2_grpc, exports_service_pb2),
        (funding_service_pb2_grpc, funding_service_pb2),
        (pricing_service_pb2_grpc, pricing_service_pb2),
        (proof_service_pb2_grpc, proof_service_pb2),
        (provider_service_pb2_grpc, provider_service_pb2),
    ],
    "enforcement": [(enforcement_service_pb2_grpc, enforcement)],
    "placement": [(placement_service_pb2_grpc, placement)],
}


def _servicer(module: Any, pb: Any, wise: object) -> Servicer:
    add = next(value for key, value in vars(module).items() if key.startswith("add_"))
    (kind,) = pb.DESCRIPTOR.services_by_name.values()
    return add, _complete(kind, wise)


def _complete(kind: Any, wise: object) -> Any:
    """A servicer with every method of the service: those of ``wise``, else an empty answer."""
    methods = dict(_methods(kind, wise))
    return type("StandIn", (), methods)()


def _methods(kind: Any, wise: object) -> Iterator[tuple[str, Any]]:
    for method in kind.methods:
        known = getattr(wise, method.name, None)
        yield method.name, staticmethod(known) if known else staticmethod(_empty(method))


def _empty(method: Any) -> Callable[..., Any]:
    answer = GetMessageClass(method.output_type)

    async def once(request: Any, context: Context) -> Any:
        return answer()

    async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
        yield answer()

    return stream if method.server_streaming else once
