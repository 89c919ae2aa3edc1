"""Whether replay gives the live state: a service folded from zero in a fresh process.

The two states are compared at one position, byte for byte; a difference means that the live
process knows something its log does not say, or that a rule changed what history means.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from chassis.channels import Channels
from chassis.identity import Identity
from leasehold.called import PROGRAM
from leasehold.chassis.v1 import log_service_pb2 as pb
from leasehold.chassis.v1.log_service_pb2_grpc import LogServiceStub
from leasehold.cli.failures import Exit, Failure

REPLAY_SECONDS = 600
ATTEMPTS = 3
PAUSE_SECONDS = 1.0
VALUE_CHARACTERS_MAX = 120

_ABSENT = object()


async def check_replay(
    postgres_url: str, peers: Mapping[str, str], identity: Path, service: str
) -> tuple[int, str]:
    """The position that was compared, and the first difference there, or ""."""
    channels = Channels(Identity(identity), peers)
    try:
        position, live = await _live_state(LogServiceStub(channels.get(service)), service)
    finally:
        await channels.close()
    rebuilt = await asyncio.to_thread(_rebuilt_state, postgres_url, service, position)
    return position, difference(live, rebuilt)


def difference(live: bytes, rebuilt: bytes | str) -> str:
    """Where the states part; ``rebuilt`` as text is the reason why there is none."""
    if isinstance(rebuilt, str):
        return f"cannot be rebuilt: {rebuilt}"
    if live == rebuilt:
        return ""
    return first_difference(json.loads(live), json.loads(rebuilt)) or "the bytes differ"


def first_difference(live: Any, rebuilt: Any, path: str = "") -> str:
    """The path of the first value that differs, with both values; "" if none does."""
    if isinstance(live, list) and isinstance(rebuilt, list):
        live, rebuilt = dict(enumerate(live)), dict(enumerate(rebuilt))
    if isinstance(live, dict) and isinstance(rebuilt, dict):
        for key in sorted(live.keys() | rebuilt.keys()):
            one, other = live.get(key, _ABSENT), rebuilt.get(key, _ABSENT)
            if found := first_difference(one, other, f"{path}.{key}" if path else str(key)):
                return found
        return ""
    if live == rebuilt and type(live) is type(rebuilt):
        return ""
    return f"{path}: live {_short(live)}, rebuilt {_short(rebuilt)}"


async def _live_state(stub: LogServiceStub, service: str) -> tuple[int, bytes]:
    """A leader that is just being replaced is asked again."""
    for left in reversed(range(ATTEMPTS)):
        try:
            position, chunks = 0, []
            async for piece in stub.GetState(pb.GetStateRequest(), timeout=REPLAY_SECONDS):
                position = piece.position
                chunks.append(piece.chunk)
            return position, b"".join(chunks)
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or not left:
                raise Failure(
                    f"{service} does not tell its state ({error.code().name}: {error.details()})",
                    Exit.UNAVAILABLE,
                    code="SERVICE_AWAY",
                    hint=f"start the platform with `{PROGRAM} up`, or look into the service's log",
                ) from None
            await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError("the last attempt raises")


def _rebuilt_state(postgres_url: str, service: str, position: int) -> bytes | str:
    done = subprocess.run(
        [sys.executable, "-m", service, "rebuild", str(position)],
        env={**os.environ, "LEASEHOLD_POSTGRES_URL": postgres_url},
        capture_output=True,
        timeout=REPLAY_SECONDS,
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        return words[-1] if words else f"exit code {done.returncode}"
    return done.stdout


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= VALUE_CHARACTERS_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[:VALUE_CHARACTERS_MAX]}… (SHA-256 {digest}…)"
