"""Channels survive what happens to their peers and to their own certificate."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from chassis import tracing
from chassis.channels import Channels, target
from chassis.rpc import caller
from leasehold.chassis.v1 import log_service_pb2 as log_pb2
from leasehold.chassis.v1 import log_service_pb2_grpc as log_grpc
from tests.chassis.mesh import Mesh, outcome, serving

OK, UNAVAILABLE = grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    return Mesh(tmp_path)


def test_a_call_gets_a_deadline_and_its_trace(mesh: Mesh) -> None:
    seen: list[tuple[float | None, str]] = []

    async def note(request: Any, context: grpc.aio.ServicerContext) -> log_pb2.GetHeadResponse:
        seen.append((context.time_remaining(), tracing.extract(context.invocation_metadata())))
        return log_pb2.GetHeadResponse()

    async def scenario() -> str:
        async with serving(mesh.service("billing"), note) as server:
            channels = Channels(mesh.service("admission"), {"billing": address(server.port)})
            stub = log_grpc.LogServiceStub(channels.get("billing"))
            with tracing.span("asking"):
                await stub.GetHead(log_pb2.GetHeadRequest())
                traceparent = tracing.current_traceparent()
            await stub.GetHead(log_pb2.GetHeadRequest(), timeout=60)
            await channels.close()
            return traceparent

    traceparent = asyncio.run(scenario())
    (first_seconds, first_trace), (second_seconds, second_trace) = seen
    assert 0 < (first_seconds or 0) < 6
    assert first_trace == traceparent
    assert 50 < (second_seconds or 0) < 62
    assert second_trace == ""


def test_the_next_address_is_used_when_the_first_does_not_listen(mesh: Mesh) -> None:
    async def scenario() -> list[grpc.StatusCode]:
        billing = mesh.service("billing")
        async with serving(billing) as first:
            silent = first.port
        async with serving(billing) as leader:
            peers = {"billing": f"{address(silent)}|{address(leader.port)}"}
            channels = Channels(mesh.service("admission"), peers)
            results = [await outcome(channels.get("billing"))]
            await leader.stop(0)
            results.append(await outcome(channels.get("billing")))
            async with serving(billing, port=silent):
                # The other one has taken over: found again within the backoff.
                results.append(await outcome(channels.get("billing"), wait_for_ready=True))
            await channels.close()
        return results

    started = time.monotonic()
    assert asyncio.run(scenario()) == [OK, UNAVAILABLE, OK]
    assert time.monotonic() - started < 5


def test_a_stub_outlives_the_certificate_it_was_made_with(mesh: Mesh) -> None:
    """The name stays the same in a renewal; here it changes, so that the change can be seen."""
    seen: list[str] = []

    async def note(request: Any, context: grpc.aio.ServicerContext) -> log_pb2.GetHeadResponse:
        seen.append(caller(context).name)
        return log_pb2.GetHeadResponse()

    async def scenario() -> None:
        shown = mesh.person("spiffe://leasehold/operator/before", "operator")
        async with serving(mesh.service("billing"), note) as server:
            channels = Channels(shown, {"billing": address(server.port)})
            stub = log_grpc.LogServiceStub(channels.get("billing"))
            await stub.GetHead(log_pb2.GetHeadRequest())
            mesh.person("spiffe://leasehold/operator/after", "operator")
            async with asyncio.timeout(10):
                while "after" not in seen:
                    await stub.GetHead(log_pb2.GetHeadRequest())
            await channels.close()

    asyncio.run(scenario())
    assert set(seen) == {"before", "after"}


def test_calls_under_way_are_finished_when_the_certificate_is_renewed(mesh: Mesh) -> None:
    async def scenario() -> grpc.StatusCode:
        arrived, proceed = asyncio.Event(), asyncio.Event()

        async def wait(request: Any, context: Any) -> log_pb2.GetHeadResponse:
            if not arrived.is_set():
                arrived.set()
                await proceed.wait()
            return log_pb2.GetHeadResponse()

        async with serving(mesh.service("billing"), wait) as server:
            channels = Channels(mesh.service("admission"), {"billing": address(server.port)})
            peer = channels.get("billing")
            under_way = asyncio.create_task(outcome(peer, timeout=30))
            await arrived.wait()
            old, _ = peer.current()
            mesh.service("admission")
            async with asyncio.timeout(10):
                while peer.current()[0] is old:
                    await outcome(peer)
            proceed.set()
            result = await under_way
            await channels.close()
            return result

    assert asyncio.run(scenario()) is OK


def test_a_server_shows_its_renewed_certificate_without_a_restart(mesh: Mesh) -> None:
    async def scenario() -> list[grpc.StatusCode]:
        billing = mesh.service("billing")
        admission = mesh.service("admission")
        async with serving(billing) as server:
            before = Channels(admission, {"billing": address(server.port)})
            results = [await outcome(before.get("billing"))]
            mesh.person("spiffe://leasehold/svc/billing", "billing", dns=("billing-renewed",))
            after = Channels(admission, {"billing-renewed": address(server.port)})
            results.append(await outcome(after.get("billing-renewed")))
            await before.close()
            await after.close()
        return results

    assert asyncio.run(scenario()) == [OK, OK]


def test_a_connection_ends_with_the_certificate_it_was_made_with(mesh: Mesh) -> None:
    async def scenario() -> None:
        shown = mesh.service("admission", seconds=2)
        async with serving(mesh.service("billing"), connection_age_ms=500) as server:
            channels = Channels(shown, {"billing": address(server.port)})
            assert await outcome(channels.get("billing")) is OK
            async with asyncio.timeout(20):
                while await outcome(channels.get("billing")) is not UNAVAILABLE:
                    continue
            await channels.close()

    asyncio.run(scenario())


def test_targets_are_numbers_in_a_list_or_one_name() -> None:
    assert target("127.0.0.1:7402") == "ipv4:127.0.0.1:7402"
    assert target("10.0.0.1:1|10.0.0.2:1") == "ipv4:10.0.0.1:1,10.0.0.2:1"
    assert target("billing.internal:443") == "dns:///billing.internal:443"
    with pytest.raises(ValueError, match="IPv4"):
        target("billing-a:1|billing-b:1")


def test_a_peer_without_an_address_is_a_mistake(mesh: Mesh) -> None:
    with pytest.raises(KeyError):
        Channels(mesh.service("admission"), {}).get("billing")


def address(port: int) -> str:
    return f"127.0.0.1:{port}"
