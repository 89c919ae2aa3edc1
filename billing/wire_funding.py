"""Funding's messages from and to plain values."""

from typing import Any

from billing.bitemporal import FOREVER, Picture
from billing.domain.account_terms import Grant
from chassis.errors import Invalid
from leasehold.billing.v1 import funding_service_pb2 as pb

_TEXT_MAX = 200


def grant(request: pb.GrantPromoRequest) -> Grant:
    for field in ("grant_id", "reason"):
        if not 0 < len(getattr(request, field)) <= _TEXT_MAX:
            raise Invalid(f"{field} has 1 to {_TEXT_MAX} characters", code="TEXT", field=field)
    return Grant(
        request.grant_id,
        request.amount_nanos,
        request.currency,
        request.expires_at,
        request.reason,
    )


def project(text: str) -> str:
    if len(text) > 64 or not (text + "-").replace("-", "a").replace("_", "a").isalnum():
        raise Invalid("a project has letters, digits and dashes", code="PROJECT", field="project")
    return text


def times(request: pb.GetLedgerRequest) -> tuple[int, int]:
    if request.as_of < 0 or request.as_known < 0:
        raise Invalid("a time is at least 0", code="TIME")
    return request.as_of or FOREVER, request.as_known or FOREVER


def funds(facts: dict[str, Any]) -> pb.Funds:
    return pb.Funds(**facts)


def budget(facts: dict[str, Any]) -> pb.Budget:
    return pb.Budget(**facts)


def period(facts: dict[str, Any]) -> pb.BillingPeriod:
    return pb.BillingPeriod(**facts)


def ledger(picture: Picture) -> pb.GetLedgerResponse:
    return pb.GetLedgerResponse(
        balances=[
            pb.AccountBalance(account=account, currency=currency, amount_nanos=amount)
            for currency, accounts in sorted(picture.balances.items())
            for account, amount in sorted(accounts.items())
        ],
        costs=[
            pb.LeaseAmount(lease_id=lease_id, amount_nanos=amount)
            for lease_id, amount in sorted(picture.costs.items())
        ],
    )
