"""Output and trail: what a workload printed, live, and what happened to its lease."""

import json
from typing import Any

import httpx

from chassis import canonical
from gateway.http.output import STREAMS_MAX
from leasehold.admission.v1.workload_pb2 import WorkloadState
from leasehold.chassis.v1.event_pb2 import RecordedEvent
from leasehold.placement.v1.node_pb2 import Lease
from tests.gateway.rig import Rig
from tests.gateway.test_intents import TRAIN
from tests.waiting import wait_for

YAML = {"Content-Type": "application/yaml"}


def test_the_output_is_plain_text_from_any_byte(rig: Rig) -> None:
    client, workload_id = started(rig, "wörld\nend\n".encode())
    path = f"/v1/workloads/{workload_id}/logs"
    answer = client.get(path)
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "wörld\nend\n"
    assert client.get(path, params={"offset": "7"}).text == "end\n"


def test_the_output_can_be_followed_and_resumed_without_loss(rig: Rig) -> None:
    text = "first line\nzwölf Töne\n" * 3
    client, workload_id = started(rig, text.encode())
    whole = followed(rig, client, workload_id, len(text.encode()))
    assert "".join(event["text"] for _, event in whole) == text
    for seen, (last_id, _) in enumerate(whole[:-1], 1):
        headers = {"Last-Event-ID": str(last_id)}
        rest = followed(rig, client, workload_id, len(text.encode()), headers=headers)
        assert "".join(event["text"] for _, event in whole[:seen] + rest) == text


def test_following_a_queued_workload_waits_for_its_lease_and_ends_with_it(rig: Rig) -> None:
    _, client = rig.tenant()
    workload_id = client.post("/v1/workloads", content=TRAIN, headers=YAML).json()["workload_id"]
    path, seen = f"/v1/workloads/{workload_id}/logs?follow=true", []
    with client.stream("GET", path) as answer:
        for line in answer.iter_lines():
            seen.append(line)
            if line == ": waiting" and not rig.standins.placement.output.get(f"lse_{workload_id}"):
                run(rig, workload_id, b"done")
                rig.loop.call_soon_threadsafe(rig.standins.placement.ended.set)
    rig.loop.call_soon_threadsafe(rig.standins.placement.ended.clear)
    assert seen[-3:] == ["event: end", "data: {}", ""]
    assert 'data: {"offset":0,"text":"done"}' in seen


def test_a_client_that_leaves_a_stream_frees_it_and_there_is_an_end_to_streams(rig: Rig) -> None:
    client, workload_id = started(rig, b"x")
    path = f"/v1/workloads/{workload_id}/logs"
    token = client.headers["authorization"].removeprefix("Bearer ")
    streams = []
    for _ in range(STREAMS_MAX):
        one = rig.client(token)
        streams.append(one.send(one.build_request("GET", path + "?follow=true"), stream=True))
    assert {stream.status_code for stream in streams} == {200}
    refused = client.get(path, params={"follow": "true"})
    assert (refused.status_code, refused.json()["code"]) == (429, "STREAMS_MAX")
    for stream in streams:
        stream.close()
    wait_for(lambda: rig.standins.placement.following == 0, seconds=15, what="streams to end")


def test_the_trail_of_a_lease_is_told_in_causal_order_with_the_stored_bytes(rig: Rig) -> None:
    tenant_id, client = rig.tenant()
    lease = Lease(lease_id="lse_t_1", tenant_id=tenant_id, workload_id="wl_t")
    rig.standins.placement.leases[lease.lease_id] = lease
    record(rig, tenant_id, "admission", 1, "admission.workload.submitted", at=50, cause="req_1")
    record(rig, tenant_id, "placement", 7, "placement.lease.held", at=10, cause="admission/0/1")
    record(
        rig, tenant_id, "billing", 3, "billing.account.hold_placed", at=20, cause="admission/0/1"
    )
    record(
        rig, tenant_id, "admission", 2, "admission.workload.admitted", at=60, cause="billing/0/3"
    )
    record(rig, "ten_other", "billing", 4, "billing.secret", at=1, cause="")
    trail = client.get("/v1/leases/lse_t_1/trail").json()
    assert (trail["lease_id"], trail["workload_id"]) == ("lse_t_1", "wl_t")
    assert [event["event_id"] for event in trail["events"]] == [
        "admission/0/1", "placement/0/7", "billing/0/3", "admission/0/2",
    ]  # fmt: skip
    first = trail["events"][0]
    assert first["data"]["amount_nanos"] == 2**60 + 1, "nothing is rounded on the way"
    assert (first["actor"], first["at"], first["hash"]) == ("svc:admission", 50, "ab" * 32)
    assert rig.staff().get("/v1/leases/lse_t_1/trail").json()["events"][0]["topic"]
    assert rig.tenant()[1].get("/v1/leases/lse_t_1/trail").status_code == 404


# What the tests stand on.


def started(rig: Rig, output: bytes) -> tuple[httpx.Client, str]:
    """A workload that runs and has printed something."""
    _, client = rig.tenant()
    workload_id = client.post("/v1/workloads", content=TRAIN, headers=YAML).json()["workload_id"]
    run(rig, workload_id, output)
    return client, workload_id


def run(rig: Rig, workload_id: str, output: bytes) -> None:
    rig.standins.placement.output[f"lse_{workload_id}"] = output
    workload = rig.standins.admission.workloads[workload_id]
    workload.state, workload.lease_id = WorkloadState.WORKLOAD_STATE_RUNNING, f"lse_{workload_id}"


def followed(
    rig: Rig, client: httpx.Client, workload_id: str, until: int, **options: Any
) -> list[tuple[int, dict[str, Any]]]:
    """The (id, data) of each event up to a byte."""
    found, last_id = [], 0
    path = f"/v1/workloads/{workload_id}/logs?follow=true"
    with client.stream("GET", path, **options) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("id: "):
                last_id = int(line[4:])
            elif line.startswith("data: "):
                found.append((last_id, json.loads(line[6:])))
                if last_id == until:
                    return found
    raise AssertionError(f"the stream ended after {found}")


def record(
    rig: Rig, tenant_id: str, service: str, position: int, topic: str, *, at: int, cause: str
) -> None:
    meta = {"at": at, "actor": f"svc:{service}", "causation_id": cause}
    event = RecordedEvent(
        position=position,
        aggregate_id="agg_1",
        topic=topic,
        tenant_id=tenant_id,
        correlation_id="wl_t",
        data=canonical.dumps({"amount_nanos": 2**60 + 1, "meta": meta}),
        hash=bytes.fromhex("ab" * 32),
    )
    rig.standins.logs[service].events.append(event)
