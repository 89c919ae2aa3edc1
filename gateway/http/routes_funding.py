"""Terms, promotional money, budgets, periods, credit notes, and the ledger as it was."""

from pydantic import Field
from starlette.responses import HTMLResponse, Response

from gateway.http import invoice_page
from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.operations import Ask, Operation, asking
from gateway.http.queries import TENANT, Query
from gateway.http.shapes import json_of
from leasehold.billing.v1 import billing_service_pb2 as billing_pb
from leasehold.billing.v1 import funding_service_pb2 as pb

_MICROS = r"0|[1-9][0-9]{0,17}"
_NANOS = r"^(0|[1-9][0-9]{0,18})$"
_HTML = "text/html"

AS_OF = Query("as_of", _MICROS, "what took effect until then, in microseconds UTC")
AS_KNOWN = Query("as_known", _MICROS, "what was recorded until then, in microseconds UTC")
AFTER = Query("after", _MICROS, "next_after of the page before")


class Terms(Body):
    zone: str = Field(default="", max_length=64)
    credit_limit_nanos: str = Field(pattern=_NANOS)


class Promo(Body):
    grant_id: str = Field(min_length=1, max_length=200)
    amount_nanos: str = Field(pattern=_NANOS)
    currency: str = Field(pattern="^[A-Z]{3}$")
    expires_at: int = Field(ge=0, lt=2**53)
    reason: str = Field(min_length=1, max_length=200)


class Credit(Body):
    line: int = Field(ge=1, le=10_000)
    amount_nanos: str = Field(pattern=_NANOS)
    reason: str = Field(min_length=1, max_length=200)


class NewBudget(Body):
    project: str = Field(default="", max_length=64)
    soft_nanos: str = Field(default="0", pattern=_NANOS)
    hard_nanos: str = Field(default="0", pattern=_NANOS)


def operations() -> tuple[Operation, ...]:
    return (_page(), *_funds(), *_budgets(), *_ledger())


def _page() -> Operation:
    method = rpc("billing", "GetInvoice")

    async def show(ask: Ask) -> Response:
        request = billing_pb.GetInvoiceRequest(invoice_id=ask.path["invoice_id"])
        response = await ask.call(method, request)
        return HTMLResponse(invoice_page.page(json_of(response.invoice)))

    return Operation(
        method="GET",
        path="/v1/invoices/{invoice_id}.html",
        summary="Shows an invoice as a page to print.",
        handle=show,
        rpc=method,
        answers={_HTML: {"type": "string"}},
    )


def _funds() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/funds",
            "Shows what a tenant can spend, and how long it lasts.",
            rpc("billing", "GetFunds"),
            lambda ask: pb.GetFundsRequest(tenant_id=ask.tenant),
            answer="funds",
            query=(TENANT,),
        ),
        asking(
            "PUT",
            "/v1/tenants/{tenant_id}/terms",
            "Sets the zone and the credit limit of a tenant.",
            rpc("billing", "SetTerms"),
            lambda ask: pb.SetTermsRequest(
                tenant_id=ask.path["tenant_id"],
                zone=ask.body.zone,
                credit_limit_nanos=int(ask.body.credit_limit_nanos),
            ),
            answer="funds",
            body=Terms,
        ),
        asking(
            "POST",
            "/v1/tenants/{tenant_id}/promos",
            "Grants promotional money that expires.",
            rpc("billing", "GrantPromo"),
            lambda ask: pb.GrantPromoRequest(
                tenant_id=ask.path["tenant_id"],
                grant_id=ask.body.grant_id,
                amount_nanos=int(ask.body.amount_nanos),
                currency=ask.body.currency,
                expires_at=ask.body.expires_at,
                reason=ask.body.reason,
            ),
            answer="funds",
            status=201,
            body=Promo,
        ),
        asking(
            "POST",
            "/v1/invoices/{invoice_id}/credits",
            "Gives back part of a line.",
            rpc("billing", "CreditLine"),
            lambda ask: pb.CreditLineRequest(
                invoice_id=ask.path["invoice_id"],
                line=ask.body.line,
                amount_nanos=int(ask.body.amount_nanos),
                reason=ask.body.reason,
            ),
            answer="credit_note",
            status=201,
            body=Credit,
        ),
    )


def _budgets() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/budgets",
            "Lists budgets with what is used, held and forecast.",
            rpc("billing", "ListBudgets"),
            lambda ask: pb.ListBudgetsRequest(tenant_id=ask.tenant),
            query=(TENANT,),
        ),
        asking(
            "PUT",
            "/v1/budgets",
            "Sets the budget of a project, or of the tenant.",
            rpc("billing", "SetBudget"),
            lambda ask: pb.SetBudgetRequest(
                tenant_id=ask.tenant,
                project=ask.body.project,
                soft_nanos=int(ask.body.soft_nanos),
                hard_nanos=int(ask.body.hard_nanos),
            ),
            answer="budget",
            query=(TENANT,),
            body=NewBudget,
        ),
        asking(
            "GET",
            "/v1/periods",
            "Lists billing periods.",
            rpc("billing", "ListPeriods"),
            lambda ask: pb.ListPeriodsRequest(tenant_id=ask.tenant),
            query=(TENANT,),
        ),
    )


def _ledger() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/ledger/balances",
            "Shows balances and costs as of one time, as known at another.",
            rpc("billing", "GetLedger"),
            lambda ask: pb.GetLedgerRequest(
                tenant_id=ask.own_tenant or ask.query.get("tenant", ""),
                as_of=int(ask.query.get("as_of", "0")),
                as_known=int(ask.query.get("as_known", "0")),
            ),
            query=(TENANT, AS_OF, AS_KNOWN),
        ),
        asking(
            "GET",
            "/v1/ledger/postings",
            "Lists postings in the order of the log.",
            rpc("billing", "ListPostings"),
            lambda ask: billing_pb.ListPostingsRequest(
                tenant_id=ask.own_tenant or ask.query.get("tenant", ""),
                after=int(ask.query.get("after", "0")),
            ),
            query=(TENANT, AFTER),
        ),
        asking(
            "GET",
            "/v1/ledger/check",
            "Folds the whole log again and compares it with what is served.",
            rpc("billing", "VerifyLedger"),
            lambda ask: pb.VerifyLedgerRequest(),
        ),
    )
