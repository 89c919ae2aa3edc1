"""Two processes for one shard: one writes, and when it is killed the other takes over."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from chassis.channels import Channels
from chassis.identity import Identity
from leasehold.billing.v1 import billing_service_pb2 as pb
from leasehold.billing.v1.billing_service_pb2_grpc import BillingServiceStub
from leasehold.launcher.child import Child
from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import HOST, Ports, free_base
from tests.story.books import Books
from tests.story.customer import SignUp
from tests.waiting import wait_for, wait_until

pytestmark = [pytest.mark.story, pytest.mark.drill]

COMMANDS = 300
TAKEOVER_SECONDS_MAX = 5.0
PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@pytest.fixture
def standby(platform: Platform, tmp_path: Path) -> Iterator[Ports]:
    """A second billing, on ports of its own."""
    ports = Ports(free_base())
    environment = platform.environments.service("billing") | {
        "LEASEHOLD_GRPC_PORT": str(ports.grpc["billing"]),
        "LEASEHOLD_METRICS_PORT": str(ports.metrics["billing"]),
    }
    ready = f"http://{HOST}:{ports.metrics['billing']}/readyz"
    child = Child("standby", "billing", environment, tmp_path / "standby.log", ready=ready)
    child.start()
    try:
        yield ports
    finally:
        child.stop()
        platform.release("billing")
        platform.wait_ready()


def test_a_standby_takes_over_without_a_lost_or_repeated_command(
    platform: Platform, standby: Ports, sign_up: SignUp, books: Books
) -> None:
    customer = sign_up("takeover")
    metrics = f"http://{HOST}:{standby.metrics['billing']}/readyz"
    wait_for(lambda: says(metrics, 503, "standby"), seconds=30, what="the standby standing by")
    leader = platform.addresses()["peers"]["billing"]
    addresses = f"{leader}|{HOST}:{standby.grpc['billing']}"
    identity = Identity(platform.identities.of("operator"))
    silence = asyncio.run(
        top_up_often(platform, Channels(identity, {"billing": addresses}), customer.tenant_id)
    )
    assert silence < TAKEOVER_SECONDS_MAX
    references = Counter(
        event["reference"]
        for event in books.events("billing", customer.tenant_id)
        if event["meta"]["topic"] == "billing.account.topped_up"
    )
    del references["wire for takeover"]
    assert references == {f"command-{number}": 1 for number in range(COMMANDS)}


async def top_up_often(platform: Platform, channels: Channels, tenant_id: str) -> float:
    """Commands in a row, the leader killed half-way; answers the longest silence in seconds."""
    stub = BillingServiceStub(channels.get("billing"))
    answered = [time.monotonic()]
    for number in range(COMMANDS):
        if number == COMMANDS // 2:
            await asyncio.to_thread(platform.hold_down, "billing")
        await until_answered(stub, tenant_id, f"command-{number}")
        answered.append(time.monotonic())
    await channels.close()
    return max(after - before for before, after in zip(answered, answered[1:], strict=False))


async def until_answered(stub: BillingServiceStub, tenant_id: str, reference: str) -> None:
    request = pb.TopUpRequest(
        tenant_id=tenant_id, amount_nanos=1, currency="USD", reference=reference
    )

    async def is_answered() -> bool:
        try:
            await stub.TopUp(request, timeout=2, metadata=[("idempotency-key", reference)])
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
            return False
        return True

    await wait_until(is_answered, seconds=30, what=f"the answer to {reference}")


def says(url: str, status: int, text: str) -> bool:
    try:
        answer = httpx.get(url, trust_env=False)
    except httpx.TransportError:
        return False
    return answer.status_code == status and text in answer.text
