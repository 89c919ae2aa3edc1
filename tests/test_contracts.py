"""Every event class of every service against its protobuf message.

The bytes that are stored, hashed and published are one encoding: canonical JSON that parses as
the event's message, with no field missing and none unknown.
"""

import importlib
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import leasehold
from admission.application import Admission
from aggregator.application import Aggregator
from billing.application import Billing
from chassis import canonical
from chassis.application import Application
from chassis.events import Cause, Codec, event_classes
from enforcement.application import Enforcement
from gateway.application import Gateway
from placement.application import Placement

APPLICATIONS: tuple[type[Application], ...] = (
    Admission,
    Aggregator,
    Billing,
    Enforcement,
    Gateway,
    Placement,
)
EVENTS = [
    pytest.param(application, event, id=event.TOPIC)  # type: ignore[attr-defined]
    for application in APPLICATIONS
    for event in event_classes(application.aggregates)
]
CAUSE = Cause(actor="svc:test", causation_id="test/0/1")


@pytest.mark.parametrize(("application", "event"), EVENTS)
def test_an_event_is_its_message(application: type[Application], event: Any) -> None:
    codec = Codec(application.aggregates)
    message = message_of(event.TOPIC)
    facts = sample(message.DESCRIPTOR)
    facts["meta"] = {
        "actor": CAUSE.actor,
        "aggregate_id": "agg_1",
        "at": 1_767_268_800_000_000,
        "causation_id": CAUSE.causation_id,
        "correlation_id": "cor_1",
        "tenant_id": "ten_1",
        "topic": event.TOPIC,
        "version": 2,
    }
    stored = canonical.dumps(facts)
    decoded = codec.decode(event.TOPIC, stored)
    encoded = codec.encode(decoded, CAUSE.actor, CAUSE.causation_id)
    assert encoded == stored, "the event's attributes are not the message's fields"
    parsed = json_format.Parse(encoded, message())
    shown = json_format.MessageToDict(parsed, preserving_proto_field_name=True)
    assert shown.keys() == facts.keys()


def test_every_event_message_has_its_event_class() -> None:
    declared = {message_of(param.values[1].TOPIC).DESCRIPTOR.full_name for param in EVENTS}
    (contracts,) = leasehold.__path__
    messages = {
        message.full_name
        for file in Path(contracts).glob("*/v1/*_events_pb2.py")
        for message in importlib.import_module(
            f"leasehold.{file.parts[-3]}.v1.{file.stem}"
        ).DESCRIPTOR.message_types_by_name.values()
        if "meta" in message.fields_by_name
    }
    assert messages == declared


def message_of(topic: str) -> type[Message]:
    """``placement.lease.drain_requested`` is ``leasehold.placement.v1.LeaseDrainRequested``."""
    service, noun, verb = topic.split(".")
    name = "".join(word.title() for word in (*noun.split("_"), *verb.split("_")))
    (contracts,) = leasehold.__path__
    for file in Path(contracts).glob(f"{service}/v1/*_events_pb2.py"):
        module = importlib.import_module(f"leasehold.{service}.v1.{file.stem}")
        if found := module.DESCRIPTOR.message_types_by_name.get(name):
            kind: type[Message] = GetMessageClass(found)
            return kind
    raise AssertionError(f"no message {name} for {topic}")


def sample(message: Descriptor) -> dict[str, Any]:
    """A value in every field but the envelope, none of them a default."""
    return {field.name: filled(field) for field in message.fields if field.name != "meta"}


def filled(field: FieldDescriptor) -> Any:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return {"key": filled(field.message_type.fields_by_name["value"])}
    value = sample(field.message_type) if field.message_type else scalar(field)
    return [value] if field.is_repeated else value


def scalar(field: FieldDescriptor) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "text"
    return True if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else 7
