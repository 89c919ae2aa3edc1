"""The loop that admits, with keepers of holds that refuse, fail, hang or are not there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from admission import workflows
from admission.workflows import AdmissionLoop
from chassis import canonical
from chassis.metrics import REGISTRY
from leasehold.admission.v1 import admission_service_pb2 as pb
from tests.admission.keepers import Holds
from tests.admission.serving import Keepers, Service, as_tenant, serving
from tests.waiting import wait_until

ACME, BETA = "ten_acme", "ten_beta"

Scenario = Callable[[Service, Keepers], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Runs a scenario on a service with two tenants and a quick tick."""

    async def played(scenario: Scenario, away: tuple[str, ...]) -> None:
        async with serving(tmp_path, database_url, away=away) as (service, keepers):
            for tenant_id in (ACME, BETA):
                await service.sign_up(tenant_id)
            await scenario(service, keepers)

    def run(scenario: Scenario, *, away: tuple[str, ...] = (), tick: float = 0.1) -> None:
        monkeypatch.setattr(workflows, "TICK_SECONDS", tick)
        asyncio.run(played(scenario, away))

    return run


def test_a_workload_is_admitted_with_both_holds_and_followed_to_its_end(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        key = await service.submit(ACME, gpu_count=2, seconds_max=100)
        await service.until(key, status="ADMITTED")
        lease_id = (await service.shown(key)).lease_id
        assert service.placement.holds.held == {lease_id: 2}
        assert service.billing.holds.held == {lease_id: 200}
        bound = {"workload_id": key, "activated_at": 7}
        await service.react("placement.lease.activated", lease_id, ACME, **bound)
        await service.until(key, status="RUNNING", started_at=7)
        end = {"cause": "EXITED", "exit_code": 3, "ended_at": 9, "workload_id": key}
        await service.react("placement.lease.ended", lease_id, ACME, **end)
        await service.until(key, status="FAILED", exit_code=3, ended_at=9)
        assert await service.seen(lambda admission: admission.usage.of(ACME)) == {}

    # No tick comes in time: submitting alone must be enough to be considered.
    play(scenario, tick=60)


def test_the_end_of_a_lease_lets_the_next_start_without_a_tick(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        first = await service.submit(ACME, gpu_count=8)
        await service.until(first, status="ADMITTED")
        second = await service.submit(ACME, gpu_count=8)
        await service.until(second, reason="QUOTA")
        lease_id = (await service.shown(first)).lease_id
        end = {"cause": "EXITED", "exit_code": 0, "ended_at": 9, "workload_id": first}
        await service.react("placement.lease.ended", lease_id, ACME, **end)
        await service.until(second, status="ADMITTED")

    play(scenario, tick=60)


def test_without_gpus_it_waits_and_is_not_asked_for_in_a_hurry(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        service.placement.holds.left = 0
        key = await service.submit(ACME)
        await service.until(key, reason="CAPACITY", detail="0 H100 are free")
        asked = len(service.placement.holds.calls)
        recorded = await service.seen(lambda admission: admission.head.position)
        await service.react("placement.node.joined", "nod_1")
        await wait_until(lambda: asked_again(service, asked), what="a node joined")
        for _ in range(20):
            await service.shown(key)
        assert len(service.placement.holds.calls) == asked + 1
        assert await service.seen(lambda admission: admission.head.position) == recorded
        service.placement.holds.left = 8
        await service.react("placement.node.joined", "nod_2")
        await service.until(key, status="ADMITTED", attempt=1)

    play(scenario, tick=60)


def test_without_money_the_gpus_go_back_and_billing_is_asked_first(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        service.billing.holds.left = 10
        key = await service.submit(ACME, seconds_max=100)
        await service.until(key, reason="BUDGET", detail="100 are needed, 10 are available")
        placed = len(service.placement.holds.calls)
        asked = len(service.billing.holds.calls)
        recorded = await service.seen(lambda admission: admission.head.position)
        await wait_until(lambda: billed_again(service, asked + 3), what="three more tries")
        assert len(service.placement.holds.calls) == placed
        assert (service.placement.holds.held, service.placement.holds.left) == ({}, 16)
        assert await service.seen(lambda admission: admission.head.position) == recorded
        service.billing.holds.left = 100
        await service.until(key, status="ADMITTED", attempt=2)
        assert service.placement.holds.held == {f"lse_{key[3:]}_2": 1}

    play(scenario)


def test_money_without_gpus_is_given_back(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        service.billing.holds.left = 0
        key = await service.submit(ACME, seconds_max=100)
        await service.until(key, reason="BUDGET")
        service.placement.holds.left = 0
        service.billing.holds.left = 100
        await service.until(key, reason="CAPACITY")
        await wait_until(lambda: has_left(service.billing.holds.left, 100), what="the money")
        service.placement.holds.left = 1
        await service.until(key, status="ADMITTED")

    play(scenario)


@pytest.mark.parametrize("keeper", ["placement", "billing"])
def test_a_keeper_that_is_away_is_named_and_waited_for(play: Play, keeper: str) -> None:
    async def scenario(service: Service, keepers: Keepers) -> None:
        key = await service.submit(ACME)
        await service.until(key, reason="HELD", detail=f"{keeper} does not answer")
        if keeper == "placement":
            await keepers.start_placement(service.placement)
        else:
            await keepers.start_billing(service.billing)
        await service.until(key, status="ADMITTED", attempt=1)

    play(scenario, away=(keeper,))


def test_one_request_that_breaks_a_keeper_does_not_hold_up_the_others(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        service.placement.holds.open.clear()
        first = await service.submit(BETA)
        await wait_until(lambda: asked_again(service, 0), what="the first round")
        bad, good = await service.submit(ACME), await service.submit(BETA)
        service.placement.holds.poison = f"lse_{bad[3:]}_1"
        service.placement.holds.open.set()
        for key in (first, good):
            await service.until(key, status="ADMITTED")
        await service.until(bad, reason="HELD")
        service.placement.holds.poison = ""
        await service.until(bad, status="ADMITTED")

    play(scenario)


def test_who_stops_while_holds_are_asked_for_is_not_admitted(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        service.billing.holds.open.clear()
        key = await service.submit(ACME)
        await wait_until(lambda: billed_again(service, 1), what="the question to billing")
        stop = pb.StopWorkloadRequest(workload_id=key)
        await service.gateway.StopWorkload(stop, timeout=5, metadata=as_tenant(ACME))
        service.billing.holds.open.set()
        await service.until(key, status="STOPPED")
        gpus, money = service.placement.holds, service.billing.holds
        await wait_until(lambda: none_held(gpus, money), what="both holds given back")

    play(scenario)


def test_after_a_crash_between_the_holds_the_same_lease_is_asked_for_again(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        service.billing.holds.open.clear()
        key = await service.submit(ACME)
        await wait_until(lambda: billed_again(service, 1), what="the question to billing")
        for loop in service.loops:
            loop.cancel()
        await asyncio.gather(*service.loops, return_exceptions=True)
        service.billing.holds.open.set()
        again = AdmissionLoop(service.admission, service.edge)
        service.loops = [asyncio.ensure_future(again.run())]
        await service.until(key, status="ADMITTED", attempt=1)
        lease_id = f"lse_{key[3:]}_1"
        assert service.placement.holds.calls == [[lease_id], [lease_id]]
        assert list(service.placement.holds.held) == list(service.billing.holds.held) == [lease_id]

    play(scenario)


def test_a_hold_that_lapsed_is_replaced_under_the_next_lease_id(play: Play) -> None:
    async def scenario(service: Service, keepers: Keepers) -> None:
        key = await service.submit(ACME)
        await service.until(key, reason="HELD")
        lease_id = f"lse_{key[3:]}_1"
        service.placement.holds.release(lease_id)
        await keepers.start_billing(service.billing)
        await service.until(key, status="ADMITTED", attempt=2)
        assert list(service.placement.holds.held) == [f"lse_{key[3:]}_2"]

    play(scenario, away=("billing",))


def test_a_lease_that_could_not_be_bound_is_tried_again_under_the_next_id(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        key = await service.submit(ACME)
        await service.until(key, status="ADMITTED")
        lease_id = (await service.shown(key)).lease_id
        refused = {"cause": "CAPACITY", "workload_id": key}
        await service.react("placement.lease.bind_refused", lease_id, ACME, **refused)
        await service.until(key, status="ADMITTED", attempt=2)
        # Reported late and of the earlier lease: nothing follows.
        await service.react("placement.lease.lapsed", lease_id, ACME, cause="EXPIRED")
        await service.until(key, status="ADMITTED", attempt=2)

    play(scenario)


def test_what_waits_and_what_was_decided_is_counted(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        before = metric("admission_workloads_total", outcome="admitted")
        decisions = metric("admission_decision_seconds_count")
        first = await service.submit(ACME, gpu_count=8)
        await service.until(first, status="ADMITTED")
        second = await service.submit(ACME)
        await service.until(second, reason="QUOTA")
        assert metric("admission_workloads_total", outcome="admitted") == before + 1
        assert metric("admission_pending", reason="QUOTA") == 1
        assert metric("admission_decision_seconds_count") > decisions

    play(scenario)


def test_many_are_admitted_in_few_rounds_and_in_order(play: Play) -> None:
    async def scenario(service: Service, _: Keepers) -> None:
        service.placement.holds.left = 6
        service.placement.holds.open.clear()
        first = await service.submit(BETA)
        await wait_until(lambda: asked_again(service, 0), what="the first round")
        keys = [await service.submit(ACME) for _ in range(8)]
        service.placement.holds.open.set()
        for key in [first, *keys[:5]]:
            await service.until(key, status="ADMITTED")
        await service.until(keys[5], reason="CAPACITY")
        assert (await service.shown(keys[6])).position == 2
        assert len(service.placement.holds.calls[1]) == 8
        admitted = [
            canonical.loads(event.data)["meta"]["aggregate_id"]
            for page in service.admission.log.replay()
            for event in page
            if event.topic == "admission.workload.admitted"
        ]
        assert admitted == [first, *keys[:5]]

    play(scenario)


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0


async def asked_again(service: Service, since: int) -> bool:
    return len(service.placement.holds.calls) > since


async def billed_again(service: Service, at_least: int) -> bool:
    return len(service.billing.holds.calls) >= at_least


async def has_left(left: int, wanted: int) -> bool:
    return left == wanted


async def none_held(*keepers: Holds) -> bool:
    return not any(keeper.held for keeper in keepers)
