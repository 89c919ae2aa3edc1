"""Protobuf to the aggregator's values and back."""

import re

from aggregator.domain import Instance, Source
from aggregator.policy import Offer, Orphan
from chassis.errors import Invalid
from leasehold.aggregator.v1 import aggregator_service_pb2 as pb

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def onboarding(request: pb.OnboardSourceRequest) -> tuple[str, str, str]:
    if not _NAME.fullmatch(request.name):
        raise Invalid(
            "name is 1 to 63 lower-case letters, digits and dashes", code="NAME", field="name"
        )
    if not request.endpoint.startswith(("http://127.0.0.1:", "https://")):
        raise Invalid(
            "endpoint is an https URL, or one on 127.0.0.1", code="ENDPOINT", field="endpoint"
        )
    return request.name, request.provider, request.endpoint


def source(aggregate: Source) -> pb.Source:
    return pb.Source(
        source_id=aggregate.id,
        name=aggregate.name,
        provider=aggregate.provider,
        endpoint=aggregate.endpoint,
    )


def instance(aggregate: Instance) -> pb.Instance:
    return pb.Instance(
        instance_id=aggregate.id,
        source_id=aggregate.source_id,
        offer=aggregate.offer,
        status=aggregate.status,
        provider_id=aggregate.provider_id,
        tag=aggregate.tag,
        price_nanos_per_hour=aggregate.price_nanos_per_hour,
        currency=aggregate.currency,
        cause=aggregate.cause,
    )


def offer(value: Offer) -> pb.Offer:
    return pb.Offer(
        offer=value.offer,
        gpu_model=value.gpu_model,
        gpu_count=value.gpu_count,
        price_nanos_per_hour=value.price_nanos_per_hour,
        currency=value.currency,
        available=value.available,
    )


def orphan(value: Orphan) -> pb.Orphan:
    return pb.Orphan(
        provider_id=value.provider_id,
        kind=str(value.kind),
        tag=value.tag,
        price_nanos_per_hour=value.price_nanos_per_hour,
    )
