"""Money: balance, costs, invoices, prices, top-ups. All of it is billing's, none computed here."""

import re

from pydantic import Field

from chassis.errors import Invalid
from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.operations import Ask, Operation, asking
from gateway.http.queries import TENANT
from leasehold.billing.v1 import billing_service_pb2 as pb

_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([0-9]{1,9}))?", re.ASCII)
_NANOS = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class TopUp(Body):
    """The amount either way, as text: a JSON number would be rounded on its way here."""

    amount: str = ""
    amount_nanos: str = ""
    currency: str = Field(pattern="^[A-Z]{3}$")
    reference: str = Field(min_length=1, max_length=200)

    def nanos(self) -> int:
        if bool(self.amount) == bool(self.amount_nanos):
            raise Invalid("give amount or amount_nanos", code="AMOUNT", field="amount")
        if self.amount_nanos:
            if not _NANOS.fullmatch(self.amount_nanos):
                raise Invalid(
                    "amount_nanos must be a whole number above 0, as text",
                    code="AMOUNT",
                    field="amount_nanos",
                )
            return int(self.amount_nanos)
        match = _DECIMAL.fullmatch(self.amount)
        nanos = int(match[1]) * 10**9 + int((match[2] or "").ljust(9, "0")) if match else 0
        if not nanos:
            raise Invalid(
                'amount must be a decimal number above 0, such as "100.00"',
                code="AMOUNT",
                field="amount",
            )
        return nanos


def _top_up(ask: Ask) -> pb.TopUpRequest:
    return pb.TopUpRequest(
        tenant_id=ask.path["tenant_id"],
        amount_nanos=ask.body.nanos(),
        currency=ask.body.currency,
        reference=ask.body.reference,
    )


def operations() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/balance",
            "Shows what is paid in, held and available.",
            rpc("billing", "GetBalance"),
            lambda ask: pb.GetBalanceRequest(tenant_id=ask.tenant),
            answer="balance",
            query=(TENANT,),
        ),
        asking(
            "GET",
            "/v1/costs",
            "Shows what each lease has cost so far.",
            rpc("billing", "GetCosts"),
            lambda ask: pb.GetCostsRequest(tenant_id=ask.tenant),
            query=(TENANT,),
        ),
        asking(
            "POST",
            "/v1/invoices",
            "Issues an invoice over every ended lease that is on none yet.",
            rpc("billing", "IssueInvoice"),
            lambda ask: pb.IssueInvoiceRequest(tenant_id=ask.tenant),
            answer="invoice",
            status=201,
            query=(TENANT,),
            location="/v1/invoices/{invoice_id}",
        ),
        asking(
            "GET",
            "/v1/invoices",
            "Lists invoices.",
            rpc("billing", "ListInvoices"),
            lambda ask: pb.ListInvoicesRequest(tenant_id=ask.tenant),
            query=(TENANT,),
        ),
        asking(
            "GET",
            "/v1/invoices/{invoice_id}",
            "Shows an invoice.",
            rpc("billing", "GetInvoice"),
            lambda ask: pb.GetInvoiceRequest(invoice_id=ask.path["invoice_id"]),
            answer="invoice",
        ),
        asking(
            "GET",
            "/v1/prices",
            "Lists the prices in force.",
            rpc("billing", "ListPrices"),
            lambda ask: pb.ListPricesRequest(),
        ),
        asking(
            "POST",
            "/v1/tenants/{tenant_id}/top-ups",
            "Pays money into a tenant's account.",
            rpc("billing", "TopUp"),
            _top_up,
            answer="balance",
            status=201,
            body=TopUp,
        ),
    )
