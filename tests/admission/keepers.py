"""Placement and billing as admission sees them: keepers of holds, with little else to them.

They keep the promise of the contract: the same lease id again gives the same answer, and one
whose hold was released has lapsed.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import billing_service_pb2_grpc as billing_grpc
from leasehold.placement.v1 import placement_service_pb2 as placement_pb
from leasehold.placement.v1 import placement_service_pb2_grpc as placement_grpc


class Holds:
    """What a keeper has left, and for whom it keeps some of it."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.held: dict[str, int] = {}
        self.lapsed: set[str] = set()
        self.calls: list[list[str]] = []
        # Whom it fails for, as a bug would.
        self.poison = ""
        # Closed, it answers nobody.
        self.open = asyncio.Event()
        self.open.set()

    async def asked(self, lease_ids: list[str]) -> None:
        self.calls.append(lease_ids)
        await self.open.wait()
        if self.poison in lease_ids:
            raise ZeroDivisionError

    def take(self, lease_id: str, amount: int) -> str:
        """ "" if it is held, else why not."""
        if lease_id in self.lapsed:
            return "LAPSED"
        if lease_id not in self.held:
            if amount > self.left:
                return "TOO_LITTLE"
            self.held[lease_id] = amount
            self.left -= amount
        return ""

    def release(self, lease_id: str) -> None:
        if lease_id in self.held:
            self.left += self.held.pop(lease_id)
            self.lapsed.add(lease_id)


class Placement(placement_grpc.PlacementServiceServicer):
    def __init__(self, gpus: int = 16) -> None:
        self.holds = Holds(gpus)

    async def PlaceHolds(
        self, request: placement_pb.PlaceHoldsRequest, context: grpc.aio.ServicerContext
    ) -> placement_pb.PlaceHoldsResponse:
        await self.holds.asked([hold.lease_id for hold in request.holds])
        return placement_pb.PlaceHoldsResponse(results=map(self._result, request.holds))

    async def ReleaseHolds(
        self, request: placement_pb.ReleaseHoldsRequest, context: grpc.aio.ServicerContext
    ) -> placement_pb.ReleaseHoldsResponse:
        for lease_id in request.lease_ids:
            self.holds.release(lease_id)
        return placement_pb.ReleaseHoldsResponse()

    def _result(self, hold: placement_pb.HoldRequest) -> placement_pb.HoldResult:
        refusals: dict[str, Any] = {
            "": placement_pb.HOLD_REFUSAL_UNSPECIFIED,
            "LAPSED": placement_pb.HOLD_REFUSAL_LAPSED,
            "TOO_LITTLE": placement_pb.HOLD_REFUSAL_CAPACITY,
        }
        refusal = refusals[self.holds.take(hold.lease_id, hold.gpu_count)]
        detail = f"{self.holds.left} H100 are free"
        return placement_pb.HoldResult(lease_id=hold.lease_id, refusal=refusal, detail=detail)


class Billing(billing_grpc.BillingServiceServicer):
    def __init__(self, balance: int = 1_000_000) -> None:
        self.holds = Holds(balance)

    async def PlaceHolds(
        self, request: billing_pb.PlaceHoldsRequest, context: grpc.aio.ServicerContext
    ) -> billing_pb.PlaceHoldsResponse:
        await self.holds.asked([hold.lease_id for hold in request.holds])
        return billing_pb.PlaceHoldsResponse(results=map(self._result, request.holds))

    async def ReleaseHolds(
        self, request: billing_pb.ReleaseHoldsRequest, context: grpc.aio.ServicerContext
    ) -> billing_pb.ReleaseHoldsResponse:
        for lease_id in request.lease_ids:
            self.holds.release(lease_id)
        return billing_pb.ReleaseHoldsResponse()

    def _result(self, hold: billing_pb.MoneyHoldRequest) -> billing_pb.MoneyHoldResult:
        refusals: dict[str, Any] = {
            "": billing_pb.MONEY_REFUSAL_UNSPECIFIED,
            "LAPSED": billing_pb.MONEY_REFUSAL_LAPSED,
            "TOO_LITTLE": billing_pb.MONEY_REFUSAL_BALANCE,
        }
        amount = hold.gpu_count * hold.seconds_max
        refusal = refusals[self.holds.take(hold.lease_id, amount)]
        detail = f"{amount} are needed, {self.holds.left} are available"
        return billing_pb.MoneyHoldResult(lease_id=hold.lease_id, refusal=refusal, detail=detail)
