"""Who may do what on the embedded NATS: one user per service, and a reader for the operator.

A service publishes its own events and dead letters, keeps its own streams, and reads the events
of the others; it hears only its own inbox. So no service can speak in another's name, whatever
becomes of its code. What is not listed is refused.
"""

import json
from collections.abc import Mapping
from typing import Any

from chassis.bus import dead_letters_stream, events_stream
from leasehold.launcher.ports import SERVICES

OPERATOR = "operator"
USERS = (*SERVICES, OPERATOR)
_API = "$JS.API"


def users_configuration(passwords: Mapping[str, str]) -> str:
    """The part of the server's configuration that names the users."""
    users = [
        {"user": user, "password": password, "permissions": permissions(user)}
        for user, password in passwords.items()
    ]
    return f"authorization {{ users: {json.dumps(users, indent=1)} }}"


def permissions(user: str) -> dict[str, Any]:
    subjects = _reader_subjects(user)
    if user != OPERATOR:
        subjects += _owner_subjects(user)
    return {"publish": {"allow": subjects}, "subscribe": {"allow": [f"_INBOX_{user}.>"]}}


def _owner_subjects(service: str) -> list[str]:
    own = [events_stream(service).name, dead_letters_stream(service).name]
    requests = ("STREAM.CREATE", "STREAM.DELETE")
    return [
        f"evt.v1.{service}.>",
        f"dlq.v1.{service}.>",
        *(f"{_API}.{request}.{stream}" for request in requests for stream in own),
    ]


def _reader_subjects(user: str) -> list[str]:
    streams = [events_stream(service).name for service in SERVICES]
    streams += [
        dead_letters_stream(service).name for service in SERVICES if user in (service, OPERATOR)
    ]
    allowed = [f"{_API}.INFO", f"{_API}.STREAM.NAMES"]
    for stream in streams:
        allowed += [
            f"{_API}.STREAM.INFO.{stream}",
            f"{_API}.STREAM.MSG.GET.{stream}",
            # A consumer bears its reader's name: nobody moves or removes another's.
            f"{_API}.CONSUMER.CREATE.{stream}.{user}",
            f"{_API}.CONSUMER.INFO.{stream}.{user}",
            f"{_API}.CONSUMER.DELETE.{stream}.{user}",
            f"{_API}.CONSUMER.MSG.NEXT.{stream}.{user}",
            f"$JS.ACK.{stream}.{user}.>",
        ]
    return allowed
