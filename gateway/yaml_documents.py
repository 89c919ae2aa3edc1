"""One YAML document as plain values, built from parser events rather than by a YAML loader.

A loader resolves ``no`` to false, ``012`` to ten and an alias to a copy of anything; here a plain
scalar is an integer, true, false, null or text, and what YAML could do beyond JSON is refused.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml import events

from gateway.strict import DEPTH_MAX, Malformed, check_values, repeated, too_deep

BYTES_MAX = 256 * 1024

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,30})", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class NotPlain(Malformed):
    """YAML that JSON could not say."""

    default_code = "YAML"


def yaml_document(data: bytes) -> Any:
    """The value of a YAML text in UTF-8, or Malformed."""
    if len(data) > BYTES_MAX:
        raise Malformed(f"a YAML document has at most {BYTES_MAX} bytes", code="TOO_LARGE")
    try:
        value = _document(yaml.parse(data.decode("utf-8"), Loader=_LOADER))
    except UnicodeDecodeError:
        raise Malformed("the document is not UTF-8", code="ENCODING") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise Malformed(f"not YAML at line {line}: {error.problem}") from None
    except yaml.YAMLError:
        raise Malformed("not YAML") from None
    check_values(value)
    return value


def _document(stream: Iterator[Any]) -> Any:
    value: Any = None
    documents = 0
    for event in stream:
        if isinstance(event, events.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise NotPlain("only one document is expected")
            if event.version or event.tags:
                raise NotPlain("directives are not accepted")
        elif isinstance(event, events.NodeEvent):
            value = _node(event, stream, 0)
    if not documents:
        raise Malformed("the document is empty")
    return value


def _node(event: Any, stream: Iterator[Any], depth: int) -> Any:
    _refuse_extras(event)
    if isinstance(event, events.ScalarEvent):
        return _scalar(event)
    if depth >= DEPTH_MAX:
        raise too_deep()
    if isinstance(event, events.SequenceStartEvent):
        return _sequence(stream, depth)
    return _mapping(stream, depth)


def _sequence(stream: Iterator[Any], depth: int) -> list[Any]:
    found = []
    while not isinstance(event := next(stream), events.SequenceEndEvent):
        found.append(_node(event, stream, depth + 1))
    return found


def _mapping(stream: Iterator[Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while not isinstance(event := next(stream), events.MappingEndEvent):
        _refuse_extras(event)
        if not isinstance(event, events.ScalarEvent):
            raise NotPlain(f"a key must be text (line {event.start_mark.line + 1})")
        if event.value in found:
            raise repeated(event.value)
        found[event.value] = _node(next(stream), stream, depth + 1)
    return found


def _refuse_extras(event: Any) -> None:
    line = event.start_mark.line + 1
    if isinstance(event, events.AliasEvent) or event.anchor:
        raise NotPlain(f"anchors and aliases are not accepted (line {line})")
    if event.tag:
        raise NotPlain(f"tags are not accepted (line {line})")


def _scalar(event: Any) -> Any:
    if not event.implicit[0]:  # quoted or a block: always text
        return event.value
    if event.value in _WORDS:
        return _WORDS[event.value]
    if _INTEGER.fullmatch(event.value):
        return int(event.value)
    return event.value
