"""Placement over mutual TLS on real PostgreSQL: what people, services and nodes see."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from chassis.clock import now
from chassis.metrics import REGISTRY
from leasehold.placement.v1 import node_pb2
from leasehold.placement.v1 import node_service_pb2 as node_pb
from leasehold.placement.v1 import placement_service_pb2 as pb
from tests.calls import as_tenant, refusal
from tests.placement.fleet import SECOND, TENANT
from tests.placement.serving import Play, Service, append, exited, running, sync

CODE = grpc.StatusCode


def test_a_lease_is_told_run_read_and_ended(play: Play) -> None:
    async def scenario(service: Service) -> None:
        node = await service.node("a")
        waiting = asyncio.ensure_future(sync(node, wait_ms=20_000))
        await service.lease("lse_1_1", 2)
        answer = await asyncio.wait_for(waiting, 5)  # long before the twenty seconds
        [told] = answer.assignments
        assert (told.lease_id, list(told.slots), told.run) == ("lse_1_1", [0, 1], True)
        assert 599 * SECOND < told.remaining_us <= 600 * SECOND
        await sync(node, running(told, SECOND), revision=answer.revision)
        assert (await service.get_lease("lse_1_1")).state == node_pb2.LEASE_STATE_ACTIVE

        reading = asyncio.ensure_future(read(service, "lse_1_1", follow=True))
        await append(node, "lse_1_1", 0, b"epoch 1\n")
        settled = await sync(node, exited(told, 2 * SECOND), revision=answer.revision)
        assert (list(settled.settled), list(settled.assignments)) == (["lse_1_1"], [])
        await append(node, "lse_1_1", 8, b"done\n")
        assert await asyncio.wait_for(reading, 8) == b"epoch 1\ndone\n"
        lease = await service.get_lease("lse_1_1")
        assert lease.state == node_pb2.LEASE_STATE_ENDED
        assert (lease.cause, lease.exit_code, len(lease.release_sha256)) == ("EXITED", 0, 64)

    play(scenario)


def test_a_wait_ends_by_itself_and_tells_the_time_that_is_left_then(play: Play) -> None:
    async def scenario(service: Service) -> None:
        node = await service.node("a")
        await service.lease("lse_1_1")
        first = await sync(node, wait_ms=20_000)
        began = time.monotonic()
        later = await sync(node, revision=first.revision, wait_ms=300)
        waited_us = int((time.monotonic() - began) * SECOND)
        assert waited_us >= 300_000
        assert later.revision == first.revision
        gone_us = first.assignments[0].remaining_us - later.assignments[0].remaining_us
        assert 250_000 <= gone_us == later.at - first.at

    play(scenario)


def test_stops_and_constraints_reach_a_waiting_node(play: Play) -> None:
    async def scenario(service: Service) -> None:
        node = await service.node("a")
        await service.lease("lse_1_1")
        revision = (await sync(node)).revision
        for topic, aggregate_id, data in [
            (
                "enforcement.guard.step_taken",
                "grd_lse_1_1",
                {"step": "throttle", "cause": "MEMORY_PRESSURE"},
            ),
            ("enforcement.guard.recovered", "grd_lse_1_1", {"step": "throttle"}),
            ("billing.account.exhausted", "acc_1", {"lease_id": "lse_1_1"}),
        ]:
            waiting = asyncio.ensure_future(sync(node, revision=revision, wait_ms=20_000))
            await service.react(topic, aggregate_id, **data)
            answer = await asyncio.wait_for(waiting, 5)
            revision = answer.revision
            [told] = answer.assignments
            step = "throttle" if topic.endswith("step_taken") else ""
            assert told.constraint == step
        assert (told.run, told.stop_cause) == (False, "BALANCE")
        # The stop of a workload that never had a lease, and one that comes twice.
        for lease_id in ("", "lse_1_1"):
            stop = "admission.workload.stop_requested"
            await service.react(stop, "wl_1", lease_id=lease_id, cause="USER")
        assert (await sync(node)).revision == revision

    play(scenario)


def test_holds_are_answered_each_by_itself_and_again_the_same(play: Play) -> None:
    async def scenario(service: Service) -> None:
        await service.node("a", gpus=2)
        first = await service.hold("lse_1_1", 2)
        assert await service.hold("lse_1_1", 2) == first
        assert (await service.hold("lse_2_1", 1)).refusal == pb.HOLD_REFUSAL_CAPACITY
        assert (await service.hold("lse_3_1", 3)).refusal == pb.HOLD_REFUSAL_NEVER_FITS
        release = pb.ReleaseHoldsRequest(lease_ids=["lse_1_1"])
        await service.admission.ReleaseHolds(release, timeout=5)
        assert (await service.hold("lse_1_1", 2)).refusal == pb.HOLD_REFUSAL_LAPSED
        assert not (await service.hold("lse_2_1", 1)).refusal

    play(scenario)


def test_holds_that_make_no_sense_change_nothing(play: Play) -> None:
    async def scenario(service: Service) -> None:
        await service.node("a")
        good = {
            "lease_id": "lse_1_1",
            "tenant_id": TENANT,
            "workload_id": "wl_1",
            "gpu_model": "H100",
            "gpu_count": 1,
        }
        for bad, code in [
            ({"gpu_count": 0}, "GPU_COUNT"),
            ({"gpu_count": -1}, "GPU_COUNT"),
            ({"lease_id": ""}, "LEASE_ID"),
            ({"lease_id": "../etc"}, "LEASE_ID"),
            ({"tenant_id": ""}, "TENANT_ID"),
            ({"gpu_model": "H 100"}, "GPU_MODEL"),
        ]:
            holds = [pb.HoldRequest(**good), pb.HoldRequest(**{**good, **bad})]
            call = service.admission.PlaceHolds(pb.PlaceHoldsRequest(holds=holds), timeout=5)
            assert await refusal(call) == (CODE.INVALID_ARGUMENT, code)
        many = pb.PlaceHoldsRequest(holds=[pb.HoldRequest(**good)] * 1001)
        call = service.admission.PlaceHolds(many, timeout=5)
        assert await refusal(call) == (CODE.INVALID_ARGUMENT, "TOO_MANY")
        listed = await service.operator.ListLeases(pb.ListLeasesRequest(), timeout=5)
        assert list(listed.leases) == []

    play(scenario)


def test_a_tenant_sees_its_own_leases_only(play: Play) -> None:
    async def scenario(service: Service) -> None:
        await service.node("a")
        for number in range(3):
            await service.lease(f"lse_{number}_1")
        mine, other = as_tenant(TENANT), as_tenant("ten_other")
        get = pb.GetLeaseRequest(lease_id="lse_1_1")
        assert (await service.gateway.GetLease(get, timeout=5, metadata=mine)).lease.lease_id
        call = service.gateway.GetLease(get, timeout=5, metadata=other)
        assert await refusal(call) == (CODE.NOT_FOUND, "LEASE_NOT_FOUND")
        logs = service.gateway.ReadLogs(
            pb.ReadLogsRequest(lease_id="lse_1_1"), timeout=5, metadata=other
        )
        assert await refusal(logs.read()) == (CODE.NOT_FOUND, "LEASE_NOT_FOUND")

        page = await service.gateway.ListLeases(
            pb.ListLeasesRequest(page_size=2), timeout=5, metadata=mine
        )
        assert [lease.lease_id for lease in page.leases] == ["lse_2_1", "lse_1_1"]
        more = pb.ListLeasesRequest(page_size=2, page_token=page.next_page_token)
        page = await service.gateway.ListLeases(more, timeout=5, metadata=mine)
        assert [lease.lease_id for lease in page.leases] == ["lse_0_1"]
        assert not page.next_page_token
        empty = await service.gateway.ListLeases(pb.ListLeasesRequest(), timeout=5, metadata=other)
        assert list(empty.leases) == []

    play(scenario)


def test_bad_pages_are_refused(play: Play) -> None:
    async def scenario(service: Service) -> None:
        for bad, code in [
            ({"page_size": -1}, "PAGE_SIZE"),
            ({"page_size": 501}, "PAGE_SIZE"),
            ({"page_token": "0"}, "PAGE_TOKEN"),
            ({"page_token": "x"}, "PAGE_TOKEN"),
            ({"page_token": "9" * 30}, "PAGE_TOKEN"),
        ]:
            call = service.operator.ListLeases(pb.ListLeasesRequest(**bad), timeout=5)
            assert await refusal(call) == (CODE.INVALID_ARGUMENT, code)

    play(scenario)


def test_what_a_node_says_is_checked(play: Play) -> None:
    async def scenario(service: Service) -> None:
        node, other = await service.node("a"), await service.node("b")
        await service.lease("lse_1_1")
        [told] = (await sync(node)).assignments
        bad = node_pb.SyncNodeRequest(statuses=[running(told, 1)])
        assert await refusal(node.SyncNode(bad, timeout=5)) == (CODE.INVALID_ARGUMENT, "BOOT_ID")
        nothing = node_pb.RunStatus(lease_id="lse_1_1", fencing_token=told.fencing_token)
        call = sync(node, nothing)
        assert await refusal(call) == (CODE.INVALID_ARGUMENT, "RUN_STATE")
        assert list((await sync(other, exited(told, 5))).settled) == ["lse_1_1"]
        assert (await service.get_lease("lse_1_1")).state == node_pb2.LEASE_STATE_BOUND
        call = append(other, "lse_1_1", 0, b"not mine")
        assert await refusal(call) == (CODE.NOT_FOUND, "LEASE_NOT_FOUND")
        call = append(node, "lse_1_1", 5, b"after a gap")
        assert await refusal(call) == (CODE.FAILED_PRECONDITION, "LOG_GAP")

    play(scenario)


def test_gauges_follow_what_happens(play: Play) -> None:
    async def scenario(service: Service) -> None:
        node = await service.node("a")
        await service.lease("lse_1_1", 2)
        await service.hold("lse_2_1", 3)
        await service.invite()
        assert gauges("placement_gpus", "state") == {"free": 3, "held": 3, "leased": 2}
        shown = gauges("placement_leases", "state")
        assert {state: count for state, count in shown.items() if count} == {"held": 1, "bound": 1}
        assert gauges("placement_nodes", "status")["ready"] == 1
        assert gauges("placement_nodes", "status")["invited"] == 1
        request = node_pb.SyncNodeRequest(boot_id="boot-1", wall_at=now() + 3 * SECOND)
        await node.SyncNode(request, timeout=5)
        assert REGISTRY.get_sample_value("placement_nodes_skewed") == 1
        await sync(node)
        assert REGISTRY.get_sample_value("placement_nodes_skewed") == 0

    play(scenario)


def test_the_clock_lapses_a_hold(play: Play) -> None:
    async def scenario(service: Service) -> None:
        await service.node("a")
        await service.hold("lse_1_1", 8)
        await until(lambda: service.hold("lse_2_1", 8), lambda hold: not hold.refusal)
        assert (await service.get_lease("lse_1_1")).state == node_pb2.LEASE_STATE_LAPSED

    play(scenario, hold_seconds=1)


def gauges(name: str, label: str) -> dict[str, float]:
    [family] = [family for family in REGISTRY.collect() if family.name == name]
    return {sample.labels[label]: sample.value for sample in family.samples}


async def read(service: Service, lease_id: str, *, follow: bool) -> bytes:
    request = pb.ReadLogsRequest(lease_id=lease_id, follow=follow)
    stream = service.gateway.ReadLogs(request, timeout=20, metadata=as_tenant(TENANT))
    return b"".join([piece.data async for piece in stream])


async def until(
    ask: Callable[[], Awaitable[Any]], satisfied: Callable[[Any], bool], seconds: float = 10
) -> None:
    deadline = time.monotonic() + seconds
    while not satisfied(answer := await ask()):
        assert time.monotonic() < deadline, f"the last answer was {answer}"
