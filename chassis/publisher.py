"""Publishes many messages to JetStream in order, with one wait for all of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg

from chassis.bus import REQUEST_SECONDS, BusAway

SLOWEST_PER_SECOND = 100
LOOK_SECONDS = 0.1


class PublishRefused(BusAway):
    """JetStream did not take a message; it may or may not have taken others of the batch."""


@dataclass(frozen=True, slots=True)
class Message:
    subject: str
    headers: dict[str, str]
    data: bytes


class Publisher:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._inbox = client.new_inbox()
        self._batch = 0
        self._missing = 0
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def on(cls, client: Client, earlier: Publisher | None) -> Publisher:
        """A publisher on this connection; the earlier one, if it is the same connection."""
        if earlier is not None and earlier._client is client:
            return earlier
        publisher = cls(client)
        await client.subscribe(f"{publisher._inbox}.*", cb=publisher._acknowledged)
        return publisher

    @property
    def payload_max(self) -> int:
        return self._client.max_payload

    async def publish(self, messages: list[Message]) -> None:
        """Return when all are stored; raise if one is not, or if that is unknown."""
        self._batch += 1
        self._missing = len(messages)
        self._done = asyncio.get_running_loop().create_future()
        for message in messages:
            await self._client.publish(message.subject, message.data, self._reply, message.headers)
        async with asyncio.timeout(REQUEST_SECONDS + len(messages) / SLOWEST_PER_SECOND):
            while not self._done.done():
                self.check_connection()
                await asyncio.wait([self._done], timeout=LOOK_SECONDS)
        self._done.result()

    def check_connection(self) -> None:
        """Raise if the connection is lost: nothing else would tell before the time is up."""
        if not self._client.is_connected:
            raise BusAway("the connection to NATS was lost")

    @property
    def _reply(self) -> str:
        # Acknowledgements of an earlier batch that failed may still arrive; they name it.
        return f"{self._inbox}.{self._batch}"

    async def _acknowledged(self, answer: Msg) -> None:
        if self._done.done() or answer.subject != self._reply:
            return
        if not answer.data:
            self._done.set_exception(PublishRefused("no stream takes this subject"))
        elif b'"error"' in answer.data:
            self._done.set_exception(PublishRefused(str(json.loads(answer.data)["error"])))
        else:
            self._missing -= 1
            if self._missing == 0:
                self._done.set_result(None)
