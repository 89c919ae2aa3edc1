"""Protobuf to billing's values and back. Says no to what makes no sense in any state. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from billing.money import Rate
from billing.policy import DISPUTES, HoldAnswer, HoldRequest, Market, Price, Slice, Verdict
from billing.rating import GRADUATED, Tier, tier_rows
from billing.shares import share
from chassis import canonical
from chassis.errors import Invalid
from chassis.events import Recorded
from leasehold.billing.v1 import billing_service_pb2 as pb
from leasehold.billing.v1 import ledger_events_pb2 as events_pb

ITEMS_MAX = 1_000
GPU_COUNT_MAX = 100_000
SECONDS_MAX = 10 * 366 * 24 * 3600
REFERENCE_LENGTH_MAX = 200
PAGE_SIZE = 500
PAGE_SIZE_MAX = 1_000

# Colons separate the parts of an account's name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_OUTCOMES = {Verdict.RECORD: "RECORDED", Verdict.KNOWN: "RECORDED", Verdict.RETRY: "RETRY"}
_UNWRITTEN = {Verdict.NEVER_ACTIVE, Verdict.FOREIGN, Verdict.CONTRADICTION}
_OUTCOMES |= dict.fromkeys(DISPUTES | _UNWRITTEN, "DISPUTED")


def name(text: str, field: str) -> str:
    if not _NAME.fullmatch(text):
        raise Invalid(f"{field} is not a name: {text[:40]!r}", code="NAME", field=field)
    return text


def reference(text: str) -> str:
    if len(text) > REFERENCE_LENGTH_MAX:
        raise Invalid(
            f"a reference has at most {REFERENCE_LENGTH_MAX} characters", code="REFERENCE"
        )
    return text


def hold_requests(request: pb.PlaceHoldsRequest) -> list[HoldRequest]:
    _check_count(request.holds, "holds")
    return [_hold_request(hold) for hold in request.holds]


def _hold_request(hold: pb.MoneyHoldRequest) -> HoldRequest:
    if not 1 <= hold.gpu_count <= GPU_COUNT_MAX:
        raise Invalid(f"gpu_count is from 1 to {GPU_COUNT_MAX}", code="GPU_COUNT")
    if not 0 <= hold.seconds_max <= SECONDS_MAX:
        raise Invalid(f"seconds_max is from 0 to {SECONDS_MAX}", code="SECONDS_MAX")
    return HoldRequest(
        lease_id=name(hold.lease_id, "lease_id"),
        tenant_id=name(hold.tenant_id, "tenant_id"),
        gpu_model=name(hold.gpu_model, "gpu_model"),
        gpu_count=hold.gpu_count,
        seconds_max=hold.seconds_max,
        correlation_id=hold.correlation_id,
        causation_id=hold.causation_id,
        form=hold.form,
        share=share(hold.share_n, hold.share_d),
        region=hold.region,
        market=hold.market or Market.ON_DEMAND,
        project=hold.project,
    )


def hold_results(answers: Iterable[HoldAnswer]) -> pb.PlaceHoldsResponse:
    return pb.PlaceHoldsResponse(
        results=[
            pb.MoneyHoldResult(
                lease_id=answer.lease_id,
                refusal=f"MONEY_REFUSAL_{answer.refusal or 'UNSPECIFIED'}",
                detail=answer.detail,
                amount_nanos=answer.amount_nanos,
            )
            for answer in answers
        ]
    )


def lease_ids(request: pb.ReleaseHoldsRequest) -> list[str]:
    _check_count(request.lease_ids, "lease_ids")
    return list(request.lease_ids)


def slices(request: pb.RecordSlicesRequest) -> list[Slice]:
    """Nothing is refused here: each slice is answered by itself."""
    _check_count(request.slices, "slices")
    return [
        Slice(
            lease_id=item.lease_id,
            fencing_token=item.fencing_token,
            boot_id=item.boot_id[:128],
            seq=item.seq,
            from_us=item.from_us,
            until_us=item.until_us,
        )
        for item in request.slices
    ]


def outcomes(verdicts: Iterable[Verdict]) -> pb.RecordSlicesResponse:
    return pb.RecordSlicesResponse(
        outcomes=[f"SLICE_OUTCOME_{_OUTCOMES[verdict]}" for verdict in verdicts]
    )


def price(message: pb.Price) -> Price:
    return Price(
        gpu_model=name(message.gpu_model, "gpu_model"),
        rate=Rate(message.price_nanos, message.per_gpu_us),
        currency=message.currency,
        effective_at=message.effective_at,
        form=name(message.form, "form") if message.form else "",
        region=name(message.region, "region") if message.region else "",
        market=message.market or Market.ON_DEMAND,
        tiers=tuple(
            Tier(tier.from_gpu_us, Rate(tier.price_nanos, tier.per_gpu_us))
            for tier in message.tiers
        ),
        mode=message.mode or GRADUATED,
        minimum_nanos=message.minimum_nanos,
        granularity_us=message.granularity_us or 1,
    )


def price_message(published: Price) -> pb.Price:
    return pb.Price(
        gpu_model=published.gpu_model,
        price_nanos=published.rate.price_nanos,
        per_gpu_us=published.rate.per_gpu_us,
        currency=published.currency,
        effective_at=published.effective_at,
        price_version=published.version,
        form=published.form,
        region=published.region,
        market=published.market,
        mode=published.mode,
        tiers=[events_pb.PriceTier(**row) for row in tier_rows(published.tariff)[1:]],
        minimum_nanos=published.minimum_nanos,
        granularity_us=published.granularity_us,
    )


def balance(tenant_id: str, facts: dict[str, Any]) -> pb.Balance:
    return pb.Balance(
        tenant_id=tenant_id,
        currency=facts["currency"],
        prepaid_nanos=facts["available"] + facts["held"],
        held_nanos=facts["held"],
        available_nanos=facts["available"],
        owed_nanos=facts["owed"],
    )


def lease_cost(facts: dict[str, Any]) -> pb.LeaseCost:
    return pb.LeaseCost(**facts)


def invoice(facts: dict[str, Any]) -> pb.Invoice:
    lines = [events_pb.InvoiceLine(**line) for line in facts["lines"]]
    credits = [credit_note(note) for note in facts["credits"]]
    return pb.Invoice(**{**facts, "lines": lines, "credits": credits})


def credit_note(facts: dict[str, Any]) -> pb.CreditNote:
    windows = [events_pb.CreditWindow(**window) for window in facts["windows"]]
    return pb.CreditNote(**{**facts, "windows": windows})


def page_size(request: pb.ListPostingsRequest) -> int:
    if request.page_size < 0 or request.after < 0:
        raise Invalid("after and page_size are at least 0", code="PAGE")
    return min(request.page_size or PAGE_SIZE, PAGE_SIZE_MAX)


def posted_entries(rows: Iterable[Recorded]) -> Iterator[pb.PostedEntry]:
    for row in rows:
        event = canonical.loads(row.data)
        for posting in event["postings"]:
            yield pb.PostedEntry(
                position=row.position,
                topic=row.topic,
                aggregate_id=row.aggregate_id,
                at=event["meta"]["at"],
                account=posting["account"],
                amount_nanos=posting["amount_nanos"],
                currency=event["currency"],
            )


def _check_count(items: Any, field: str) -> None:
    if len(items) > ITEMS_MAX:
        raise Invalid(f"at most {ITEMS_MAX} {field} in one call", code="TOO_MANY", field=field)
