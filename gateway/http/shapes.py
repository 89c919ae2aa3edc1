"""Protobuf messages as the JSON that people read, and the JSON schema of that.

Field names are those of the protos. Enums lose their prefix and are null when unset; every
money field is a string of nano-units with a decimal string beside it, because a JSON number
would be rounded by most readers.
"""

from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

_NANOS = "_nanos"
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
}
_MONEY_SCHEMA = {"type": "string", "pattern": "^-?[0-9]+$", "description": "Nano-units (1e-9)."}
_DECIMAL_SCHEMA = {"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{2,9}$"}


def decimal(nanos: int) -> str:
    """``2490000000`` as ``2.49``: exact, with at least two places."""
    whole, fraction = divmod(abs(nanos), 10**9)
    places = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nanos < 0 else ''}{whole}.{places}"


def json_of(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_money(field):
            found[field.name] = str(value)
            found[_decimal_name(field)] = decimal(value)
        elif _is_map(field):
            found[field.name] = dict(value)
        elif field.is_repeated:
            found[field.name] = [_plain(field, item) for item in value]
        elif field.message_type and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _plain(field, value)
    return found


def schema_of(kind: Descriptor, components: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of ``kind``, which is added to ``components``."""
    if kind.name not in components:
        properties: dict[str, Any] = {}
        components[kind.name] = {"type": "object", "properties": properties}
        for field in kind.fields:
            if _is_money(field):
                properties[field.name] = _MONEY_SCHEMA
                properties[_decimal_name(field)] = _DECIMAL_SCHEMA
            else:
                properties[field.name] = _field_schema(field, components)
        components[kind.name]["required"] = list(properties)
    return {"$ref": f"#/components/schemas/{kind.name}"}


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type:
        return json_of(value)
    if field.enum_type:
        return _enum_name(field.enum_type, value)
    return value


def _enum_name(kind: EnumDescriptor, number: int) -> str | None:
    known = kind.values_by_number.get(number)
    if known is None or number == 0:
        return None
    return str(known.name)[len(_enum_prefix(kind)) :]


def _enum_prefix(kind: EnumDescriptor) -> str:
    return str(kind.values_by_number[0].name).removesuffix("UNSPECIFIED")


def _field_schema(field: FieldDescriptor, components: dict[str, Any]) -> dict[str, Any]:
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        return {"type": "object", "additionalProperties": _field_schema(value, components)}
    one = _single_schema(field, components)
    if field.is_repeated:
        return {"type": "array", "items": one}
    return {"anyOf": [one, {"type": "null"}]} if field.message_type else one


def _single_schema(field: FieldDescriptor, components: dict[str, Any]) -> dict[str, Any]:
    if field.message_type:
        return schema_of(field.message_type, components)
    if field.enum_type:
        kind = field.enum_type
        names = [_enum_name(kind, value.number) for value in kind.values if value.number]
        return {"type": ["string", "null"], "enum": [*names, None]}
    if field.cpp_type in _INTEGERS:
        return {"type": "integer"}
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return {"type": "boolean"}
    return {"type": "string"}


def _is_money(field: FieldDescriptor) -> bool:
    return _NANOS in field.name and not field.is_repeated


def _decimal_name(field: FieldDescriptor) -> str:
    return str(field.name).replace(_NANOS, "")


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)
