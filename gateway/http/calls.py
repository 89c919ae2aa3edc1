"""Asking the service that owns an answer, in the name of whoever asked us.

An RPC is named by its descriptor, from which its address, its messages, its row in the
authorisation table and the shape of its answer all follow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from chassis.callers import ACTOR, ROLE, TENANT
from chassis.edge import Edge
from chassis.statuses import error_from_rpc
from gateway.http.sessions import Person
from leasehold.admission.v1 import admission_service_pb2
from leasehold.aggregator.v1 import aggregator_service_pb2
from leasehold.authorisation import TABLE
from leasehold.billing.v1 import (
    billing_service_pb2,
    exports_service_pb2,
    funding_service_pb2,
    pricing_service_pb2,
    provider_service_pb2,
)
from leasehold.chassis.v1 import log_service_pb2
from leasehold.enforcement.v1 import enforcement_service_pb2
from leasehold.gateway.v1 import gateway_service_pb2
from leasehold.placement.v1 import placement_service_pb2

_FILES = {
    "admission": admission_service_pb2,
    "aggregator": aggregator_service_pb2,
    "billing": billing_service_pb2,
    "chassis": log_service_pb2,
    "enforcement": enforcement_service_pb2,
    "gateway": gateway_service_pb2,
    "placement": placement_service_pb2,
}
# What a service offers beside its first API; no two have a method of the same name.
_MORE_FILES: dict[str, tuple[Any, ...]] = {
    "billing": (exports_service_pb2, funding_service_pb2, pricing_service_pb2, provider_service_pb2)
}
SERVICES = tuple(sorted(_FILES.keys() - {"chassis"}))

_SECONDS = 5.0


def rpc(service: str, name: str) -> MethodDescriptor:
    """The RPC ``name`` of a service; "chassis" means the log that each of them offers."""
    for file in (_FILES[service], *_MORE_FILES.get(service, ())):
        (owner,) = file.DESCRIPTOR.services_by_name.values()
        if name in owner.methods_by_name:
            return owner.methods_by_name[name]
    raise LookupError(f"{service} has no {name}")


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def roles_of(method: MethodDescriptor) -> frozenset[str]:
    """Who may call it: the same table by which the service itself decides."""
    return frozenset(role for role, allowed in TABLE[path_of(method)].items() if allowed)


class Services:
    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._methods: dict[tuple[str, str], Any] = {}

    async def call(
        self,
        method: MethodDescriptor,
        request: Message,
        person: Person | None,
        *,
        request_id: str,
        key: str = "",
    ) -> Any:
        """The answer, or the error as the service raised it."""
        metadata = self._metadata(person, request_id, key)
        try:
            return await self._bound(method)(request, timeout=_SECONDS, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None

    async def stream(
        self,
        method: MethodDescriptor,
        request: Message,
        person: Person | None,
        *,
        request_id: str,
        seconds: float,
        service: str = "",
    ) -> AsyncIterator[Any]:
        metadata = self._metadata(person, request_id, "")
        answers = self._bound(method, service)(request, timeout=seconds, metadata=metadata)
        try:
            async for answer in answers:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None
        finally:
            answers.cancel()

    def _metadata(self, person: Person | None, request_id: str, key: str) -> list[tuple[str, str]]:
        """Without a person the gateway speaks for itself."""
        pairs = self._edge.metadata(correlation_id=request_id, causation_id=request_id, key=key)
        if person is not None:
            pairs += [(ROLE, person.role), (ACTOR, person.actor)]
        if person is not None and person.tenant_id:
            pairs.append((TENANT, person.tenant_id))
        return pairs

    def _bound(self, method: MethodDescriptor, service: str = "") -> Any:
        owner = service or method.containing_service.full_name.split(".")[1]
        bound = self._methods.get((owner, method.name))
        if bound is None:
            peer = self._edge.peer(owner)
            make = peer.unary_stream if method.server_streaming else peer.unary_unary
            bound = self._methods[owner, method.name] = make(
                path_of(method),
                request_serializer=_serialized,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
        return bound


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
