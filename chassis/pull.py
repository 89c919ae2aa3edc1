"""Messages from a durable pull consumer, as soon as they arrive.

One request for many messages is always open at the server; what has arrived is handed on at
once, so that a lone message does not wait for company.
"""

import json
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import TimeoutError as NatsTimeout
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from chassis.bus import BUS_ERRORS, BusAway

BATCH = 512
REQUEST_SECONDS = 5
ACK_WAIT_SECONDS = 30
LOOK_BACK_SECONDS = 600
PENDING_MAX = 8 * BATCH
# Statuses that end a request in good order: nothing there, its time is up.
_NO_MESSAGES, _REQUEST_OVER = "404", "408"


class Pull:
    def __init__(
        self, client: Client, jetstream: JetStreamContext, stream: str, durable: str
    ) -> None:
        self._client = client
        self._jetstream = jetstream
        self._stream = stream
        self._durable = durable
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._wanted = 0
        self._asked = 0.0

    async def open(self) -> None:
        """Bind to the durable, made if it is missing.

        A new durable begins a little before now: enough to go on without the owner through a
        moment in which both were away. What is older is read from the owner.
        """
        start = datetime.now(UTC) - timedelta(seconds=LOOK_BACK_SECONDS)
        try:
            await self._jetstream.consumer_info(self._stream, self._durable)
        except NotFoundError:
            await self._jetstream.add_consumer(
                self._stream,
                ConsumerConfig(
                    name=self._durable,
                    durable_name=self._durable,
                    deliver_policy=DeliverPolicy.BY_START_TIME,
                    opt_start_time=start,
                    ack_policy=AckPolicy.ALL,
                    ack_wait=ACK_WAIT_SECONDS,
                    max_ack_pending=PENDING_MAX,
                ),
            )
        self._subscription = await self._client.subscribe(self._inbox)

    async def close(self) -> None:
        if self._subscription is not None:
            with suppress(*BUS_ERRORS):
                await self._subscription.unsubscribe()

    async def drop_durable(self) -> None:
        """Make the server forget how far it delivered."""
        with suppress(NotFoundError):
            await self._jetstream.delete_consumer(self._stream, self._durable)

    async def arrived(self, seconds: float) -> list[Msg]:
        """What is there, waiting so long for a first message; empty if none came."""
        assert self._subscription is not None
        if self._wanted <= 0 or time.monotonic() - self._asked > REQUEST_SECONDS:
            await self._request()
        messages: list[Msg] = []
        while not messages or self._subscription.pending_msgs:
            try:
                message = await self._subscription.next_msg(timeout=seconds)
            except NatsTimeout:
                break
            if status := (message.headers or {}).get("Status"):
                if status not in (_NO_MESSAGES, _REQUEST_OVER):
                    raise BusAway(f"the durable {self._durable} of {self._stream}: status {status}")
                await self._request()
            else:
                self._wanted -= 1
                messages.append(message)
        return messages

    async def _request(self) -> None:
        self._wanted, self._asked = BATCH, time.monotonic()
        request = {"batch": BATCH, "expires": REQUEST_SECONDS * 1_000_000_000}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        await self._client.publish(subject, json.dumps(request).encode(), self._inbox)
