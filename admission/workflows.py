"""The loop that admits: choose candidates, ask for both holds, record what was decided.

It runs when something changed and at least every second. Every call it makes may be repeated:
lease ids are derived, so after a crash at any point the same questions get the same answers, and
holds that are left over expire by themselves.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable

import grpc

from admission import wire
from admission.application import Admission
from admission.holds import Answer, Candidate, Keeper, silence
from admission.metrics import DECISION, WORKLOADS
from admission.rounds import Rounds, Settled
from chassis.edge import Edge
from chassis.errors import ServiceError
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1.billing_service_pb2_grpc import BillingServiceStub
from leasehold.placement.v1 import placement_service_pb2 as placement_pb
from leasehold.placement.v1.placement_service_pb2_grpc import PlacementServiceStub

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
CALL_SECONDS = 5.0
CANDIDATES_MAX = 256

# The keeper is not there or too busy, whatever it was asked.
_AWAY = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


class AdmissionLoop:
    def __init__(self, admission: Admission, edge: Edge) -> None:
        self._admission = admission
        self._edge = edge
        self._rounds = Rounds(admission)
        self._placement = PlacementServiceStub(edge.peer(Keeper.PLACEMENT))
        self._billing = BillingServiceStub(edge.peer(Keeper.BILLING))

    async def run(self) -> None:
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def ring() -> None:
            # Called on the writer's thread; what it has not seen yet, the next round will.
            if not changed.is_set():
                loop.call_soon_threadsafe(changed.set)

        self._admission.on_change = ring
        try:
            everybody = True
            while True:
                changed.clear()
                await self._rounds_until_quiet(everybody)
                everybody = not await _within(changed, TICK_SECONDS)
        finally:
            self._admission.on_change = lambda: None

    async def _rounds_until_quiet(self, everybody: bool) -> None:
        try:
            while await self._round(everybody):
                everybody = False
        except ServiceError as error:
            log.warning("no admission for now: %s", error)

    async def _round(self, everybody: bool) -> bool:
        """Whether another round may find more."""
        began = time.monotonic()
        candidates = await self._edge.act(
            lambda at: self._rounds.choose(CANDIDATES_MAX, everybody=everybody, at=at)
        )
        if not candidates:
            return False
        answers = await self._asked(candidates)
        settled = await self._edge.act(lambda at: self._rounds.settle(answers, at=at))
        DECISION.observe(time.monotonic() - began)
        WORKLOADS.labels("admitted").inc(settled.admitted)
        await self._release(settled)
        return settled.more

    async def _asked(self, candidates: Iterable[Candidate]) -> list[Answer]:
        """Both keepers' answers for every candidate that the first one did not refuse."""
        answers = [Answer(candidate) for candidate in candidates]
        by_billing = [a for a in answers if a.candidate.first is Keeper.BILLING]
        by_placement = [a for a in answers if a.candidate.first is Keeper.PLACEMENT]
        await self._ask(Keeper.PLACEMENT, by_placement)
        await self._ask(Keeper.BILLING, [a for a in answers if not a.refused])
        await self._ask(Keeper.PLACEMENT, [a for a in by_billing if not a.refused])
        return answers

    async def _ask(self, keeper: Keeper, answers: list[Answer]) -> None:
        if not answers:
            return
        try:
            await self._call(keeper, answers)
        except grpc.aio.AioRpcError as error:
            if len(answers) > 1 and error.code() not in _AWAY:
                # Something is wrong with one of them; it must not hold up the others.
                for answer in answers:
                    await self._ask(keeper, [answer])
                return
            log.warning("%s does not answer: %s %s", keeper, error.code().name, error.details())
            for answer in answers:
                answer.denial = silence(keeper)

    async def _call(self, keeper: Keeper, answers: list[Answer]) -> None:
        candidates = [answer.candidate for answer in answers]
        if keeper is Keeper.PLACEMENT:
            gpus = wire.gpu_holds(candidates)
            held = await self._placement.PlaceHolds(gpus, timeout=CALL_SECONDS)
            wire.take_gpu_answers(answers, held)
        else:
            money = wire.money_holds(candidates)
            set_aside = await self._billing.PlaceHolds(money, timeout=CALL_SECONDS)
            wire.take_money_answers(answers, set_aside)

    async def _release(self, settled: Settled) -> None:
        if lease_ids := settled.release.get(Keeper.PLACEMENT):
            gpus = placement_pb.ReleaseHoldsRequest(lease_ids=lease_ids)
            await _tried(self._placement.ReleaseHolds(gpus, timeout=CALL_SECONDS))
        if lease_ids := settled.release.get(Keeper.BILLING):
            money = billing_pb.ReleaseHoldsRequest(lease_ids=lease_ids)
            await _tried(self._billing.ReleaseHolds(money, timeout=CALL_SECONDS))


async def _tried(release: Awaitable[object]) -> None:
    """A hold that stays behind expires by itself."""
    try:
        await release
    except grpc.aio.AioRpcError as error:
        log.info("holds are left to expire: %s %s", error.code().name, error.details())


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
