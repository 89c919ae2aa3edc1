"""Joining over the join port: tokens, certificates, and who is kept apart."""

import asyncio

import grpc
import psycopg

from chassis.clock import now
from leasehold.placement.v1 import node_service_pb2 as node_pb
from leasehold.placement.v1 import placement_service_pb2 as pb
from tests.calls import refusal
from tests.placement.serving import Play, Service, machine, sync
from tests.waiting import wait_for

CODE = grpc.StatusCode


def test_joins_that_must_be_refused(play: Play) -> None:
    async def scenario(service: Service) -> None:
        joins, first, second = service.joins(), machine("a"), machine("b")
        token = (await service.invite()).token
        unreadable = first.join_request(token)
        unreadable.certificate_request = "-----BEGIN CERTIFICATE REQUEST-----\nx"
        call = joins.JoinNode(unreadable, timeout=5)
        assert await refusal(call) == (CODE.INVALID_ARGUMENT, "CSR")

        answer = await joins.JoinNode(first.join_request(token), timeout=5)
        again = await joins.JoinNode(first.join_request(token), timeout=5)
        assert again.node_id == answer.node_id, "the same key may ask again"
        for joining, shown, code in [
            (second, token, "TOKEN_USED"),
            (second, "guessed", "TOKEN_UNKNOWN"),
            (second, "", "TOKEN_UNKNOWN"),
        ]:
            call = joins.JoinNode(joining.join_request(shown), timeout=5)
            assert await refusal(call) == (CODE.PERMISSION_DENIED, code)

        brief = await service.invite(seconds=1)
        await asyncio.to_thread(wait_until, brief.expires_at)
        call = joins.JoinNode(second.join_request(brief.token), timeout=5)
        assert await refusal(call) == (CODE.PERMISSION_DENIED, "TOKEN_EXPIRED")

    play(scenario)


def test_a_node_that_joins_twice_is_kept_apart_with_its_double(play: Play) -> None:
    async def scenario(service: Service) -> None:
        node = await service.node("a")
        double = machine("a").join_request((await service.invite()).token)
        call = service.joins().JoinNode(double, timeout=5)
        assert await refusal(call) == (CODE.FAILED_PRECONDITION, "GPU_CLAIMED_TWICE")
        request = node_pb.RenewCertificateRequest(
            certificate_request=machine("a").certificate_request
        )
        call = node.RenewCertificate(request, timeout=5)
        assert await refusal(call) == (CODE.PERMISSION_DENIED, "NODE_QUARANTINED")
        nodes = (await service.operator.ListNodes(pb.ListNodesRequest(), timeout=5)).nodes
        assert [(node.status, node.gpus_free) for node in nodes] == [("quarantined", 0)] * 2

    play(scenario)


def test_simulated_gpus_are_refused_where_they_are_not_allowed(play: Play) -> None:
    async def scenario(service: Service) -> None:
        token = (await service.invite()).token
        call = service.joins().JoinNode(machine("a").join_request(token), timeout=5)
        assert await refusal(call) == (CODE.FAILED_PRECONDITION, "SIMULATED")
        real = machine("a", simulated=False).join_request(token)
        assert (await service.joins().JoinNode(real, timeout=5)).node_id

    play(scenario, allow_simulated=False)


def test_a_node_renews_its_certificate_and_joins_again_under_its_name(play: Play) -> None:
    async def scenario(service: Service) -> None:
        joining = machine("a")
        answer = await service.joins().JoinNode(
            joining.join_request((await service.invite()).token), timeout=5
        )
        node = service.node_stub(joining, answer)
        request = node_pb.RenewCertificateRequest(certificate_request=joining.certificate_request)
        renewed = await node.RenewCertificate(request, timeout=5)
        assert renewed.certificate_chain != answer.certificate_chain
        await sync(service.node_stub(joining, answer))

        anew = machine("a")
        invited = await service.invite(node_id=answer.node_id)
        rejoined = await service.joins().JoinNode(anew.join_request(invited.token), timeout=5)
        assert rejoined.node_id == answer.node_id
        call = service.operator.IssueJoinToken(
            pb.IssueJoinTokenRequest(node_id="nod_none"), timeout=5
        )
        assert await refusal(call) == (CODE.NOT_FOUND, "NODE_NOT_FOUND")

    play(scenario)


def test_a_repeated_invitation_gives_the_same_token_and_no_table_holds_it(
    play: Play, database: str
) -> None:
    async def scenario(service: Service) -> None:
        request, key = pb.IssueJoinTokenRequest(source="local"), (("idempotency-key", "one"),)
        first, again = [
            await service.operator.IssueJoinToken(request, timeout=5, metadata=key)
            for _ in range(2)
        ]
        assert first == again
        assert len(first.token) >= 43
        with psycopg.connect(database) as connection:
            for column, table in (("data", "events"), ("answer", "commands")):
                query = f"select {column} from placement.{table}"
                stored = b"".join(bytes(row[0]) for row in connection.execute(query.encode()))
                assert first.node_id.encode() in stored
                assert first.token.encode() not in stored

    play(scenario)


def wait_until(at: int) -> None:
    wait_for(lambda: now() >= at, what="the token has expired")
