"""Provisioning: carries out what was recorded as wanted, and records what came of it.

The loop may die between any two lines. What it finds unfinished when it begins again may already
have been asked of the provider, so it looks for the tag before it asks.
"""

import asyncio
import logging
from collections.abc import Callable

from prometheus_client import Counter

from aggregator import policy
from aggregator.application import Aggregator
from aggregator.domain import Instance, Source
from aggregator.policy import Machine
from aggregator.providers import Busy, Provider, Rejected, Unclear
from chassis import ids
from chassis.edge import Edge
from chassis.metrics import REGISTRY

log = logging.getLogger(__name__)

CALLS = Counter(
    "aggregator_provider_calls_total",
    "Attempts at providers by outcome",
    ["action", "outcome"],
    registry=REGISTRY,
)
IDLE_SECONDS = 5.0


class Provisioning:
    def __init__(
        self, aggregator: Aggregator, edge: Edge, adapters: dict[str, Callable[[str], Provider]]
    ) -> None:
        self._aggregator = aggregator
        self._edge = edge
        self._adapters = adapters
        self._providers: dict[str, Provider] = {}
        self._wake = asyncio.Event()
        self._attempts: dict[str, int] = {}

    def nudge(self) -> None:
        self._wake.set()

    def provider(self, source: Source) -> Provider:
        if source.id not in self._providers:
            self._providers[source.id] = self._adapters[source.provider](source.endpoint)
        return self._providers[source.id]

    async def run(self) -> None:
        while True:
            self._wake.clear()
            waits = [IDLE_SECONDS]
            for instance, source in await self._edge.query(self._aggregator.unfinished):
                waits.append(await self._carry_out(instance, source))
            try:
                await asyncio.wait_for(self._wake.wait(), min(waits))
            except TimeoutError:
                continue

    async def _carry_out(self, instance: Instance, source: Source) -> float:
        """One attempt; answers how long to wait before the next one for this instance."""
        action = "create" if instance.status == "requested" else "delete"
        provider, attempts = self.provider(source), self._attempts.get(instance.id, 0)
        self._attempts[instance.id] = attempts + 1
        try:
            done = await (self._create if action == "create" else self._delete)(provider, instance)
        except Rejected as refusal:
            await self._give_up(instance.id, str(refusal))
            done = True
        except Busy as busy:
            CALLS.labels(action, "busy").inc()
            return policy.backoff_seconds(attempts, busy.retry_after)
        except Unclear as unclear:
            CALLS.labels(action, "unclear").inc()
            log.warning("unclear answer: %s", unclear, extra={"instance": instance.id})
            if action == "create" and attempts + 1 >= policy.ATTEMPTS_MAX:
                await self._give_up_if_absent(provider, instance, str(unclear))
            return policy.backoff_seconds(attempts)
        if done:
            CALLS.labels(action, "done").inc()
            self._attempts.pop(instance.id, None)
        return policy.backoff_seconds(attempts)

    async def _create(self, provider: Provider, instance: Instance) -> bool:
        # Any earlier attempt, also one by a process that has died since, may have made it.
        found = await provider.find(instance.tag)
        machine = found or await provider.create(instance.offer, instance.tag)
        await self._created(instance.id, machine, found_by_tag=found is not None)
        return True

    async def _delete(self, provider: Provider, instance: Instance) -> bool:
        if await provider.find(instance.tag) is None:
            await self._edge.act(lambda at: self._aggregator.gone(instance.id, at=at))
            return True
        await provider.delete(instance.provider_id)
        self.nudge()
        return False

    async def _created(self, instance_id: str, machine: Machine, *, found_by_tag: bool) -> None:
        await self._edge.act(
            lambda at: self._aggregator.created(
                instance_id, machine, found_by_tag=found_by_tag, at=at
            )
        )

    async def _give_up_if_absent(self, provider: Provider, instance: Instance, cause: str) -> None:
        """After the last attempt: a VM that exists is ours, whatever the answers said."""
        try:
            found = await provider.find(instance.tag)
        except (Busy, Unclear, Rejected):
            # Nothing is known, so nothing is concluded: the next round looks again.
            return
        if found:
            await self._created(instance.id, found, found_by_tag=True)
        else:
            await self._give_up(instance.id, cause)

    async def _give_up(self, instance_id: str, cause: str) -> None:
        CALLS.labels("create", "failed").inc()
        await self._edge.act(lambda at: self._aggregator.failed(instance_id, cause, at=at))


async def onboard_default(aggregator: Aggregator, edge: Edge, endpoint: str) -> None:
    """The embedded platform has one source from the start: the simulated provider."""
    source_id = ids.new("src")
    await edge.act(
        lambda at: aggregator.onboard(source_id, "simulated", "simulated", endpoint, at=at)
    )
