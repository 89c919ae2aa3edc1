"""Capacity bought ahead of time, and payments in another currency."""

from pydantic import Field

from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.intents import MODEL
from gateway.http.operations import Ask, Operation, asking
from gateway.http.queries import TENANT
from gateway.http.routes_pricing import nanos_given
from leasehold.billing.v1 import pricing_service_pb2 as pb

_HOUR_US = 3_600_000_000


class NewCommitment(Body):
    """So many GPUs in every UTC hour of a term, at a price for one GPU and one hour."""

    commitment_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")
    gpu_model: str = Field(pattern=MODEL)
    gpu_count: int = Field(ge=1, le=100_000)
    price: str
    starts_at: int = Field(ge=0, lt=2**63)
    ends_at: int = Field(ge=0, lt=2**63)


class Exchange(Body):
    """A payment in another currency; ``rate`` is the account's currency for one of it."""

    amount: str
    currency: str = Field(pattern="^[A-Z]{3}$")
    rate: str
    source: str = Field(min_length=1, max_length=200)
    quoted_at: int = Field(ge=0, lt=2**63)
    reference: str = Field(min_length=1, max_length=200)


def _commitment(ask: Ask) -> pb.OpenCommitmentRequest:
    body = ask.body
    return pb.OpenCommitmentRequest(
        commitment=pb.Commitment(
            commitment_id=body.commitment_id,
            tenant_id=ask.path["tenant_id"],
            gpu_model=body.gpu_model,
            gpu_count=body.gpu_count,
            price_nanos=nanos_given("price", body.price),
            per_gpu_us=_HOUR_US,
            starts_at=body.starts_at,
            ends_at=body.ends_at,
        )
    )


def _exchange(ask: Ask) -> pb.ExchangePaymentRequest:
    body = ask.body
    return pb.ExchangePaymentRequest(
        tenant_id=ask.path["tenant_id"],
        amount_nanos=nanos_given("amount", body.amount),
        currency=body.currency,
        rate_n=nanos_given("rate", body.rate),
        rate_d=10**9,
        source=body.source,
        quoted_at=body.quoted_at,
        reference=body.reference,
    )


def operations() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/commitments",
            "Lists commitments with what was used of them.",
            rpc("billing", "ListCommitments"),
            lambda ask: pb.ListCommitmentsRequest(tenant_id=ask.tenant),
            query=(TENANT,),
        ),
        asking(
            "POST",
            "/v1/tenants/{tenant_id}/commitments",
            "Sells a tenant GPUs for every hour of a term.",
            rpc("billing", "OpenCommitment"),
            _commitment,
            answer="commitment",
            status=201,
            body=NewCommitment,
        ),
        asking(
            "POST",
            "/v1/tenants/{tenant_id}/exchanges",
            "Pays money in another currency into a tenant's account.",
            rpc("billing", "ExchangePayment"),
            _exchange,
            status=201,
            body=Exchange,
        ),
    )
