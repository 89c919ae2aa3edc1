"""Proofs from the running service: fetched in pages, checked with the public key, anchored."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from billing.application import Billing
from billing.proof import anchor, gathering, merkle
from billing.proof.bundle import FORMAT
from billing.proof.heads import SignedHead, head_holds
from billing.proof.tiles import Followed
from billing.proof.tree import LogChanged
from chassis.store import Store
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import proof_service_pb2 as pb
from leasehold.billing.v1.proof_service_pb2_grpc import ProofServiceStub
from leasehold.cli import anchors, receipt
from tests.billing.serving import Service, serving
from tests.billing.test_api import BOB, EVE, WAIT, funded, ran, rebuilt
from tests.billing.world import SECOND
from tests.calls import refusal
from tests.chassis.mesh import raw_channel
from tests.waiting import wait_until

Scenario = Callable[[Service, ProofServiceStub], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path, database_url: str) -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def with_service() -> None:
            async with serving(tmp_path, database_url, head_seconds=1) as service:
                mesh = service._mesh
                trust = (mesh.folder / "root" / "cert.pem").read_bytes()
                channel = raw_channel(service._port, mesh.service("gateway"), trust, "billing")
                await scenario(service, ProofServiceStub(channel))
                await channel.close()

        asyncio.run(with_service())

    return run


def test_an_invoice_is_proven_and_holds_with_the_public_key_alone(
    play: Any, database_url: str
) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        invoice_id = await invoiced(service)
        document = await fetched(proofs, invoice_id)
        keys = await proofs.GetPublicKeys(pb.GetPublicKeysRequest(), **BOB)
        proven = receipt.check(document, keys.keys[-1].public_key)
        assert proven.invoice["invoice_id"] == invoice_id
        assert proven.head.log_id == keys.log_id
        assert await service.seen(Billing.state) == rebuilt(database_url)

    play(scenario)


def test_a_proof_in_many_pages_is_the_same(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        invoice_id = await invoiced(service)
        whole = await fetched(proofs, invoice_id)
        size = whole["head"]["size"]
        for name, value in (("EVENTS_MAX", 1), ("EVENTS_MAX", 2), ("BYTES_MAX", 1)):
            with monkeypatch.context() as patch:
                patch.setattr(gathering, name, value)
                assert await fetched(proofs, invoice_id, size) == whole

    play(scenario)


def test_another_tenants_invoice_is_not_proven(play: Any) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        request = pb.GetInvoiceProofRequest(invoice_id=await invoiced(service))
        unknown = grpc.StatusCode.NOT_FOUND, "INVOICE_NOT_FOUND"
        assert await refusal(proofs.GetInvoiceProof(request, **EVE)) == unknown

    play(scenario)


def test_every_head_is_signed_listed_and_consistent_with_the_next(play: Any) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        await invoiced(service)
        newest = await proofs.GetSignedHead(pb.GetSignedHeadRequest(), **BOB)
        await service.operator.TopUp(top_up(), **WAIT)
        await grown(proofs, newest.head.size)
        heads = await listed(proofs)
        assert [head.size for head in heads] == sorted({head.size for head in heads})
        keys = await proofs.GetPublicKeys(pb.GetPublicKeysRequest(), **BOB)
        assert all(
            head_holds(SignedHead.of(facts(head)), keys.keys[0].public_key) for head in heads
        )
        for first, second in zip(heads, heads[1:], strict=False):
            request = pb.GetConsistencyProofRequest(first=first.size, second=second.size)
            path = (await proofs.GetConsistencyProof(request, **BOB)).path
            assert merkle.is_consistent(
                first.size,
                bytes.fromhex(first.root),
                second.size,
                bytes.fromhex(second.root),
                [bytes.fromhex(hash_) for hash_ in path],
            )
        again = pb.GetSignedHeadRequest(size=heads[0].size)
        assert (await proofs.GetSignedHead(again, **BOB)).head == heads[0]

    play(scenario)


def test_what_was_not_signed_cannot_be_asked_for(play: Any) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        await invoiced(service)
        missing = proofs.GetSignedHead(pb.GetSignedHeadRequest(size=10**9), **BOB)
        assert await refusal(missing) == (grpc.StatusCode.NOT_FOUND, "HEAD_NOT_FOUND")
        for first, second in ((2, 1), (1, 10**9), (-1, 1)):
            request = pb.GetConsistencyProofRequest(first=first, second=second)
            refused = await refusal(proofs.GetConsistencyProof(request, **BOB))
            assert refused == (grpc.StatusCode.INVALID_ARGUMENT, "SIZE")
        request = pb.GetInvoiceProofRequest(invoice_id="inv_acme_000001", page_token="x")
        refused = await refusal(proofs.GetInvoiceProof(request, **BOB))
        assert refused == (grpc.StatusCode.INVALID_ARGUMENT, "CURSOR")

    play(scenario)


def test_an_idle_log_is_not_signed_again(play: Any) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        await invoiced(service)
        await proofs.GetSignedHead(pb.GetSignedHeadRequest(), **BOB)

        async def is_idle() -> bool:
            return not await service.seen(lambda billing: billing.signed.is_due(1 << 62, 1))

        await wait_until(is_idle, what="everything but the last head is covered by it")
        signed = await service.seen(lambda billing: billing.signed.head)
        assert not await service.seen(lambda billing: billing.signed.is_due(1 << 62, 1))
        assert signed["size"] >= await service.seen(lambda billing: billing.signed.last_fact)

    play(scenario)


def test_a_new_key_signs_and_old_readers_still_trust(play: Any) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        invoice_id = await invoiced(service)
        first = (await proofs.GetPublicKeys(pb.GetPublicKeysRequest(), **BOB)).keys[0]
        operator = as_operator(service)
        key = (await operator.RotateKey(pb.RotateKeyRequest(), **WAIT)).key
        assert key.previous_key_id == first.key_id
        keyed = {**WAIT, "metadata": (("idempotency-key", "once"),)}
        key = (await operator.RotateKey(pb.RotateKeyRequest(), **keyed)).key
        assert (await operator.RotateKey(pb.RotateKeyRequest(), **keyed)).key == key
        size = (await proofs.GetSignedHead(pb.GetSignedHeadRequest(), **BOB)).head.size
        await service.operator.TopUp(top_up(), **WAIT)
        await grown(proofs, size)
        document = await fetched(proofs, invoice_id)
        assert document["head"]["key_id"] == key.key_id
        assert receipt.check(document, first.public_key)
        assert receipt.check(document, key.public_key)
        refused = await refusal(proofs.RotateKey(pb.RotateKeyRequest(), **BOB))
        assert refused[0] == grpc.StatusCode.PERMISSION_DENIED

    play(scenario)


def test_keys_are_secret_and_every_head_is_anchored(
    play: Any, tmp_path: Path, database_url: str
) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        await invoiced(service)
        await proofs.GetSignedHead(pb.GetSignedHeadRequest(), **BOB)

        async def anchored() -> bool:
            kept = anchor.read(folder(tmp_path).joinpath("anchor.jsonl").read_bytes())
            return [facts(head) for head in await listed(proofs)] == [
                head.facts() for head, _ in kept
            ]

        await wait_until(anchored, what="the anchor file holds every head")

    play(scenario)
    (key,) = (folder(tmp_path) / "keys").glob("*.pem")
    assert key.stat().st_mode & 0o777 == 0o600
    store = Store(database_url, "billing")
    assert anchors.difference(store, folder(tmp_path) / "anchor.jsonl") == ("", "")
    assert anchors.difference(store, tmp_path / "none") == ("", "the anchor file none is missing")
    store.close()


def test_a_restart_goes_on_with_its_tiles_and_distrusts_false_ones(
    play: Any, tmp_path: Path, database_url: str
) -> None:
    async def scenario(service: Service, proofs: ProofServiceStub) -> None:
        await funded(service)
        for number in range(300):
            await service.operator.TopUp(top_up(f"payment {number}"), **WAIT)
        await grown(proofs, 256)

    play(scenario)
    store, tiles = Store(database_url, "billing"), folder(tmp_path) / "tiles"
    size = store.head().position
    expected = Followed(store, tmp_path / "new").catch_up(size).root(size)
    assert tiles.stat().st_size == 32
    for content in (tiles.read_bytes(), bytes(32), bytes(96), b"torn"):
        tiles.write_bytes(content)
        tree = Followed(store, tiles).catch_up(size, size=size, root=expected.hex())
        assert tree.root(size) == expected
    with pytest.raises(LogChanged, match="not those whose root was signed"):
        Followed(store, tiles).catch_up(size, size=size, root="00" * 32)
    store.close()


async def invoiced(service: Service) -> str:
    await funded(service)
    await ran(service, 10 * SECOND)
    issued = await service.gateway.IssueInvoice(billing_pb.IssueInvoiceRequest(), **BOB)
    return str(issued.invoice.invoice_id)


async def fetched(proofs: ProofServiceStub, invoice_id: str, size: int = 0) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    token = ""
    while True:
        page = await proofs.GetInvoiceProof(
            pb.GetInvoiceProofRequest(invoice_id=invoice_id, size=size, page_token=token), **BOB
        )
        size, token = page.head.size, page.next_page_token
        events += [
            {"position": one.position, "data": one.data, "path": list(one.path)}
            for one in page.events
        ]
        if not token:
            break
    return {
        "format": FORMAT,
        "invoice": json.loads(page.invoice),
        "head": facts(page.head),
        "keys": [facts(key) for key in page.keys],
        "events": events,
    }


async def listed(proofs: ProofServiceStub) -> list[pb.SignedHead]:
    found: list[pb.SignedHead] = []
    after = 0
    while True:
        request = pb.ListSignedHeadsRequest(after=after, page_size=2)
        page = await proofs.ListSignedHeads(request, **BOB)
        found += page.heads
        after = page.next_after
        if not after:
            return found


async def grown(proofs: ProofServiceStub, size: int) -> None:
    async def is_signed() -> bool:
        found = await proofs.GetSignedHead(pb.GetSignedHeadRequest(), **BOB)
        return bool(found.head.size > size)

    await wait_until(is_signed, what=f"a head of more than {size} events is signed")


def facts(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def top_up(reference: str = "more") -> billing_pb.TopUpRequest:
    return billing_pb.TopUpRequest(
        tenant_id="ten_acme", amount_nanos=10**9, currency="USD", reference=reference
    )


def as_operator(service: Service) -> ProofServiceStub:
    mesh = service._mesh
    trust = (mesh.folder / "root" / "cert.pem").read_bytes()
    shown = mesh.person("spiffe://leasehold/operator/ann", "operator")
    channel = raw_channel(service._port, shown, trust, "billing")
    service._channels.append(channel)
    return ProofServiceStub(channel)


def folder(tmp_path: Path) -> Path:
    return tmp_path / "billing" / "proofs"
