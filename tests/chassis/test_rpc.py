"""Every call is identified, authorised, bounded and counted, over real mutual TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from chassis import errors, tracing
from chassis.callers import ACTOR, ROLE, TENANT
from chassis.channels import Channels
from chassis.errors import NotFound, ServiceError
from chassis.identity import Identity
from chassis.metrics import REGISTRY
from chassis.rpc import Caller, caller, error_from_rpc, serve_grpc
from leasehold.chassis.v1 import log_service_pb2 as log_pb2
from leasehold.chassis.v1 import log_service_pb2_grpc as log_grpc
from tests.chassis.mesh import GET_HEAD, REPLAY, TABLE, Answer, Mesh, head, raw_channel, serving

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    return Mesh(tmp_path)


def test_a_service_is_known_by_its_certificate(mesh: Mesh) -> None:
    admission = Caller(role="admission", actor="svc:admission", tenant_id="", name="admission")
    assert seen_caller(mesh, mesh.service("admission")) == admission


def test_an_operator_is_known_by_name(mesh: Mesh) -> None:
    anna = mesh.person("spiffe://leasehold/operator/anna", "anna")
    assert seen_caller(mesh, anna) == Caller("operator", "operator:anna", "", "anna")


def test_a_node_is_known_by_its_id(mesh: Mesh) -> None:
    table = {GET_HEAD: {"node": True}}
    seen = seen_caller(mesh, mesh.node("nod_7"), table=table)
    assert seen == Caller("node", "node:nod_7", "", "nod_7")


def test_the_gateway_speaks_for_a_tenant(mesh: Mesh) -> None:
    seen = seen_caller(mesh, mesh.service("gateway"), on_behalf("tenant_user", "ten_1"))
    assert seen == Caller("tenant_user", "tenant:ten_1", "ten_1", "gateway")


def test_nobody_but_the_gateway_speaks_for_others(mesh: Mesh) -> None:
    seen = seen_caller(mesh, mesh.service("admission"), on_behalf("operator", ""))
    assert (seen.role, seen.tenant_id) == ("admission", "")


@pytest.mark.parametrize(
    ("role", "tenant"),
    [("billing", ""), ("node", ""), ("root", ""), ("tenant_user", ""), ("operator", "ten_1")],
)
def test_the_gateway_speaks_for_people_only(mesh: Mesh, role: str, tenant: str) -> None:
    table = {GET_HEAD: {role: True}}
    error = failure(mesh, mesh.service("gateway"), metadata=on_behalf(role, tenant), table=table)
    assert (type(error), error.code) == (errors.Denied, "IDENTITY")


def test_a_role_without_a_yes_in_the_table_is_denied(mesh: Mesh) -> None:
    for table in (TABLE, {GET_HEAD: {"placement": False}}, {GET_HEAD: {}}, {}):
        error = failure(mesh, mesh.service("placement"), table=table)
        assert (type(error), error.code) == (errors.Denied, "PERMISSION_DENIED")


def test_a_stranger_passes_only_where_the_table_says_anyone(mesh: Mesh) -> None:
    open_table = {GET_HEAD: {"anyone": True}}
    seen = seen_caller(mesh, None, table=open_table, require_client_certificate=False)
    assert seen.role == "anyone"
    error = failure(mesh, None, require_client_certificate=False)
    assert error.code == "PERMISSION_DENIED"


def test_a_tenant_sees_its_own_tenant_and_no_other(mesh: Mesh) -> None:
    tenant = Caller("tenant_viewer", "tenant:ten_1", "ten_1", "gateway")
    assert tenant.scope("") == tenant.scope("ten_1") == "ten_1"
    with pytest.raises(NotFound):
        tenant.scope("ten_2")
    assert Caller("operator", "operator:anna", "", "anna").scope("ten_2") == "ten_2"
    assert Caller("finance", "finance:fred", "", "fred").scope("") == ""
    with pytest.raises(NotFound):
        Caller("node", "node:nod_1", "", "nod_1").scope("ten_1")


def test_a_call_without_a_deadline_is_refused(mesh: Mesh) -> None:
    unary = failure(mesh, mesh.service("admission"), timeout=None)
    stream = failure(mesh, mesh.service("admission"), timeout=None, call=replay)
    assert unary.code == stream.code == "DEADLINE_REQUIRED"
    assert isinstance(unary, errors.Invalid)


def test_a_deadline_in_ten_years_is_refused(mesh: Mesh) -> None:
    ten_years = failure(mesh, mesh.service("admission"), timeout=10 * 365 * 24 * 3600)
    assert ten_years.code == "DEADLINE_TOO_FAR"


@pytest.mark.parametrize("method", [GET_HEAD, REPLAY])
def test_a_malformed_message_is_the_fault_of_its_sender(mesh: Mesh, method: str) -> None:
    async def malformed(channel: grpc.aio.Channel, options: dict[str, Any]) -> None:
        if method == GET_HEAD:
            await channel.unary_unary(method)(b"\xff\xff\xff", **options)
        async for _ in channel.unary_stream(method)(b"\xff\xff\xff", **options):
            pass

    error = failure(mesh, mesh.service("admission"), call=malformed)
    assert (type(error), error.code) == (errors.Invalid, "MALFORMED")


def test_who_may_not_call_learns_nothing_about_parsing(mesh: Mesh) -> None:
    async def malformed(channel: grpc.aio.Channel, options: dict[str, Any]) -> None:
        await channel.unary_unary(GET_HEAD)(b"\xff\xff\xff", **options)

    error = failure(mesh, mesh.service("placement"), call=malformed)
    assert error.code == "PERMISSION_DENIED"


def test_an_oversized_message_is_refused(mesh: Mesh) -> None:
    async def oversized(channel: grpc.aio.Channel, options: dict[str, Any]) -> None:
        await channel.unary_unary(GET_HEAD)(b"x" * 5000, **options)

    error = failure(mesh, mesh.service("admission"), call=oversized, receive_bytes_max=4096)
    assert (type(error), error.code) == (errors.Invalid, "TOO_LARGE")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.Invalid, grpc.StatusCode.INVALID_ARGUMENT),
        (errors.NotFound, grpc.StatusCode.NOT_FOUND),
        (errors.Refused, grpc.StatusCode.FAILED_PRECONDITION),
        (errors.Conflict, grpc.StatusCode.ALREADY_EXISTS),
        (errors.Denied, grpc.StatusCode.PERMISSION_DENIED),
        (errors.Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (errors.Unavailable, grpc.StatusCode.UNAVAILABLE),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_a_typed_error_arrives_as_it_was_raised(
    mesh: Mesh, kind: type[ServiceError], status: grpc.StatusCode, streaming: bool
) -> None:
    raised = kind("zu groß – 9 GPUs", code="GPU_COUNT", field="training_job.gpu_count", have="8")
    call = replay if streaming else get_head
    error = rpc_failure(mesh, mesh.service("admission"), raising(raised), call=call)
    assert error.code() is status
    again = error_from_rpc(error)
    assert (type(again), again.message, again.code) == (kind, raised.message, raised.code)
    assert again.details == raised.details


def test_a_rich_error_names_the_field_for_any_client(mesh: Mesh) -> None:
    raised = errors.Invalid("too many", code="GPU_COUNT", field="job.gpu_count")
    error = rpc_failure(mesh, mesh.service("admission"), raising(raised))
    status = Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info, bad = ErrorInfo(), BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad)
    assert (info.reason, info.domain) == ("GPU_COUNT", "leasehold")
    assert bad.field_violations[0].field == "job.gpu_count"


def test_an_endless_error_still_arrives(mesh: Mesh) -> None:
    details = {f"key_{number}": "y" * 5000 for number in range(100)}
    raised = errors.Refused("x" * 100_000, code="LONG", **details)
    error = error_from_rpc(rpc_failure(mesh, mesh.service("admission"), raising(raised)))
    assert error.code == "LONG"
    assert error.message == "x" * 1000


@pytest.mark.parametrize("streaming", [False, True])
def test_a_bug_leaves_as_an_incident_and_its_stack_stays_in_the_log(
    mesh: Mesh, streaming: bool, caplog: pytest.LogCaptureFixture
) -> None:
    call = replay if streaming else get_head
    bug = raising(ZeroDivisionError("canary-of-the-inside"))
    error = rpc_failure(mesh, mesh.service("admission"), bug, call=call)
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "canary" not in repr((error.details(), error.trailing_metadata()))
    incident = error_from_rpc(error).details["incident"]
    (record,) = [r for r in caplog.records if getattr(r, "incident", "") == incident]
    assert record.exc_info is not None
    assert "canary-of-the-inside" in str(record.exc_info[1])
    assert incident in str(error.details())


def test_a_peer_that_is_down_is_unavailable(mesh: Mesh) -> None:
    async def scenario() -> ServiceError:
        async with serving(mesh.service("billing")) as server:
            port = server.port
        channels = Channels(mesh.service("admission"), {"billing": f"127.0.0.1:{port}"})
        try:
            await get_head(channels.get("billing"), {})
        except grpc.aio.AioRpcError as error:
            return error_from_rpc(error)
        finally:
            await channels.close()
        raise AssertionError("the call went through")

    error = asyncio.run(scenario())
    assert (type(error), error.code) == (errors.Unavailable, "UNAVAILABLE")


def test_calls_are_counted_by_method_and_code(mesh: Mesh) -> None:
    good, bad = count("OK"), count("NOT_FOUND")
    admission = mesh.service("admission")
    seen_caller(mesh, admission)
    rpc_failure(mesh, admission, raising(NotFound("no such log")))
    assert (count("OK"), count("NOT_FOUND")) == (good + 1, bad + 1)


def test_a_cancelled_stream_ends_in_the_handler_and_is_counted(mesh: Mesh) -> None:
    async def scenario() -> None:
        ended, never = asyncio.Event(), asyncio.Event()

        async def wait(request: Any, context: Any) -> None:
            try:
                await never.wait()
            finally:
                ended.set()

        async with (
            serving(mesh.service("billing"), wait) as server,
            raw_channel(server.port, mesh.service("admission"), trust(mesh)) as channel,
        ):
            stream = log_grpc.LogServiceStub(channel).Replay(log_pb2.ReplayRequest(), timeout=30)
            await stream.read()
            stream.cancel()
            await asyncio.wait_for(ended.wait(), 5)

    cancelled = count("CANCELLED", REPLAY)
    asyncio.run(scenario())
    assert count("CANCELLED", REPLAY) == cancelled + 1


def test_the_trace_of_the_caller_continues_in_the_handler(mesh: Mesh) -> None:
    seen: list[str] = []

    async def note(request: Any, context: Any) -> log_pb2.GetHeadResponse:
        seen.append(tracing.current_traceparent())
        return log_pb2.GetHeadResponse()

    with tracing.span("outside", PARENT):
        asyncio.run(exchange(mesh, mesh.service("admission"), note, get_head, through_peer=True))
    trace_id = PARENT.split("-")[1]
    assert [one.split("-")[1] for one in seen] == [trace_id]
    assert tracing.current_traceparent() == ""


def test_health_answers_and_reflection_is_off_in_production(mesh: Mesh) -> None:
    async def scenario(environment: str) -> tuple[int, list[str]]:
        async with (
            serving(mesh.service("billing"), environment=environment) as server,
            raw_channel(server.port, mesh.service("admission"), trust(mesh)) as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=5)
            return answer.status, await listed_services(channel)

    serving_status = health_pb2.HealthCheckResponse.SERVING
    status, names = asyncio.run(scenario("development"))
    assert status == serving_status
    assert "leasehold.chassis.v1.LogService" in names
    assert asyncio.run(scenario("production")) == (serving_status, [])


def test_a_port_belongs_to_one_server(mesh: Mesh) -> None:
    async def scenario() -> None:
        billing = mesh.service("billing")
        async with serving(billing) as server:
            with pytest.raises(RuntimeError, match="bind"):
                await serve_grpc("127.0.0.1", server.port, billing, [], TABLE)

    asyncio.run(scenario())


Call = Callable[[grpc.aio.Channel, dict[str, Any]], Awaitable[Any]]


async def get_head(channel: grpc.aio.Channel, options: dict[str, Any]) -> Any:
    return await log_grpc.LogServiceStub(channel).GetHead(log_pb2.GetHeadRequest(), **options)


async def replay(channel: grpc.aio.Channel, options: dict[str, Any]) -> Any:
    stream = log_grpc.LogServiceStub(channel).Replay(log_pb2.ReplayRequest(), **options)
    return [response async for response in stream]


async def exchange(
    mesh: Mesh,
    shown: Identity | None,
    answer: Answer,
    call: Call,
    through_peer: bool = False,
    **options: Any,
) -> Any:
    """One call against one server. Options of the call go there, the others to the server."""
    for_call = {key: options.pop(key) for key in ("timeout", "metadata") if key in options}
    for_call.setdefault("timeout", 5)
    async with serving(mesh.service("billing"), answer, **options) as server:
        if through_peer and shown is not None:
            channels = Channels(shown, {"billing": f"127.0.0.1:{server.port}"})
            try:
                return await call(channels.get("billing"), for_call)
            finally:
                await channels.close()
        async with raw_channel(server.port, shown, trust(mesh)) as channel:
            return await call(channel, for_call)


def seen_caller(mesh: Mesh, shown: Identity | None, metadata: Any = (), **options: Any) -> Caller:
    seen: list[Caller] = []

    async def note(request: Any, context: grpc.aio.ServicerContext) -> log_pb2.GetHeadResponse:
        seen.append(caller(context))
        return log_pb2.GetHeadResponse()

    asyncio.run(exchange(mesh, shown, note, get_head, metadata=metadata, **options))
    return seen[0]


def rpc_failure(
    mesh: Mesh, shown: Identity | None, answer: Answer = head, call: Call = get_head, **options: Any
) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        asyncio.run(exchange(mesh, shown, answer, call, **options))
    return raised.value


def failure(mesh: Mesh, shown: Identity | None, **options: Any) -> ServiceError:
    return error_from_rpc(rpc_failure(mesh, shown, **options))


def raising(error: Exception) -> Answer:
    async def answer(request: Any, context: grpc.aio.ServicerContext) -> Any:
        raise error

    return answer


def on_behalf(role: str, tenant_id: str) -> tuple[tuple[str, str], ...]:
    return ((ROLE, role), (TENANT, tenant_id), (ACTOR, f"tenant:{tenant_id}"))


def count(code: str, method: str = GET_HEAD) -> float:
    labels = {"method": method, "code": code}
    return REGISTRY.get_sample_value("leasehold_rpc_seconds_count", labels) or 0


async def listed_services(channel: grpc.aio.Channel) -> list[str]:
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    try:
        async for answer in stub.ServerReflectionInfo(iter([question]), timeout=5):
            return [service.name for service in answer.list_services_response.service]
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
            raise
    return []


def trust(mesh: Mesh) -> bytes:
    return (mesh.folder / "root" / "cert.pem").read_bytes()
