"""What a peer may get wrong over gRPC: each has its typed answer, and nothing has happened."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from chassis import identity
from leasehold.admission.v1 import admission_service_pb2 as pb
from leasehold.admission.v1.intent_pb2 import Intent
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.launcher.platform import Platform
from tests.story.heads import Heads
from tests.story.speakers import Metadata, Speakers, for_tenant, refusal

pytestmark = pytest.mark.story

CODE = grpc.StatusCode
ADMISSION = "/leasehold.admission.v1.AdmissionService"
BILLING = "/leasehold.billing.v1.BillingService"
SUBMIT = f"{ADMISSION}/SubmitWorkload"
TENANT = for_tenant("ten_bad_calls")
# Field 99, which no intent has, as a proto3 writer of another version would send it.
UNKNOWN_FIELD = b"\x9a\x06\x01x"


@pytest.fixture(scope="module")
def speakers(platform: Platform) -> Iterator[Speakers]:
    speakers = Speakers(platform)
    yield speakers
    speakers.close()


@pytest.fixture
def heads(platform: Platform) -> Iterator[Heads]:
    heads = Heads(platform)
    yield heads
    heads.close()


def test_what_is_no_message_of_the_method_is_refused(speakers: Speakers, heads: Heads) -> None:
    admission = speakers.gateway("admission")
    newer = Intent(name="newer").SerializeToString() + UNKNOWN_FIELD
    batch = pb.SubmitBatchRequest(intents=[Intent(name="many")] * 1001)
    with heads.unchanged():
        for method, data, status, code in (
            ("SubmitWorkload", b"\xff\xff\xff", CODE.INVALID_ARGUMENT, "MALFORMED"),
            ("SubmitWorkload", b"\x0a\xff\xff\xff\xff\x0f", CODE.INVALID_ARGUMENT, "MALFORMED"),
            ("SubmitWorkload", nested(newer), CODE.INVALID_ARGUMENT, "UNKNOWN_FIELD"),
            ("SubmitBatch", batch.SerializeToString(), CODE.INVALID_ARGUMENT, "BATCH_SIZE"),
            ("SubmitWorkload", bytes(5_000_000), CODE.RESOURCE_EXHAUSTED, "TOO_LARGE"),
            ("SubmitEverything", b"", CODE.UNIMPLEMENTED, "UNIMPLEMENTED"),
        ):
            call = admission.unary_unary(f"{ADMISSION}/{method}")
            assert refusal(call, data, metadata=TENANT) == (status, code), (method, data[:9])


def test_a_batch_that_comes_too_early_may_be_repeated_with_its_key(
    speakers: Speakers, heads: Heads
) -> None:
    batch = pb.SubmitBatchRequest(intents=[Intent(name="early")]).SerializeToString()
    call = speakers.gateway("admission").unary_unary(f"{ADMISSION}/SubmitBatch")
    metadata = for_tenant("ten_without_envelope", key="early")
    with heads.unchanged():
        refused = refusal(call, batch, metadata=metadata)
    # Not an answer per intent: that would be kept, and given again for ever.
    assert refused == (CODE.UNAVAILABLE, "ENVELOPE_PENDING")


def test_a_call_without_an_end_in_sight_is_refused(speakers: Speakers, heads: Heads) -> None:
    call = speakers.gateway("admission").unary_unary(SUBMIT)
    with heads.unchanged():
        for seconds, code in ((None, "DEADLINE_REQUIRED"), (48 * 3600, "DEADLINE_TOO_FAR")):
            refused = refusal(call, b"", metadata=TENANT, timeout=seconds)
            assert refused == (CODE.INVALID_ARGUMENT, code)


def test_nobody_speaks_for_others_but_the_gateway_and_it_only_for_people(
    speakers: Speakers, heads: Heads
) -> None:
    hold = billing_pb.PlaceHoldsRequest().SerializeToString()
    as_admission: Metadata = (("x-leasehold-role", "admission"), ("x-leasehold-actor", "svc:a"))
    nameless: Metadata = (("x-leasehold-role", "tenant_user"), ("x-leasehold-actor", "tenant:"))
    with heads.unchanged():
        posing = speakers.gateway("billing").unary_unary(f"{BILLING}/PlaceHolds")
        assert refusal(posing, hold, metadata=as_admission) == (CODE.PERMISSION_DENIED, "IDENTITY")
        submit = speakers.gateway("admission").unary_unary(SUBMIT)
        assert refusal(submit, b"", metadata=nameless) == (CODE.PERMISSION_DENIED, "IDENTITY")
        borrowed = speakers.operator("admission").unary_unary(SUBMIT)
        denied = (CODE.PERMISSION_DENIED, "PERMISSION_DENIED")
        assert refusal(borrowed, b"", metadata=TENANT) == denied


def test_a_certificate_of_another_root_does_not_get_through_the_door(
    platform: Platform, speakers: Speakers, heads: Heads, tmp_path: Path
) -> None:
    identity.create_root(tmp_path / "root")
    identity.issue(tmp_path / "root", tmp_path / "me", "spiffe://leasehold/operator/me")
    ours = (platform.identities.root / "cert.pem").read_bytes()
    (tmp_path / "me" / "ca.pem").write_bytes(ours)
    forged = speakers.showing(identity.Identity(tmp_path / "me"), "billing")
    with heads.unchanged():
        call = forged.unary_unary(f"{BILLING}/TopUp")
        assert refusal(call, b"") == (CODE.UNAVAILABLE, "UNAVAILABLE")


def nested(intent: bytes) -> bytes:
    """A SubmitWorkloadRequest around the bytes of an intent."""
    return b"\x0a" + bytes([len(intent)]) + intent
