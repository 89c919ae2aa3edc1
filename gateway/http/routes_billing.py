"""Money: balance, costs, invoices, prices, top-ups. All of it is billing's, none computed here."""

import re

from pydantic import Field

from chassis.errors import Invalid
from gateway.http.bodies import Body
from gateway.http.calls import rpc
from gateway.http.intents import MODEL
from gateway.http.operations import Ask, Operation, asking
from gateway.http.queries import TENANT
from leasehold.billing.v1 import billing_service_pb2 as pb

_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([0-9]{1,9}))?", re.ASCII)
_NANOS = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_HOUR_US = 3_600_000_000


def _given(name: str, decimal: str, nanos: str) -> int:
    """An amount given either way, as text: a JSON number would be rounded on its way here."""
    if bool(decimal) == bool(nanos):
        raise Invalid(f"give {name} or {name}_nanos", code="AMOUNT", field=name)
    if nanos:
        if not _NANOS.fullmatch(nanos):
            raise Invalid(
                f"{name}_nanos must be a whole number above 0, as text",
                code="AMOUNT",
                field=f"{name}_nanos",
            )
        return int(nanos)
    match = _DECIMAL.fullmatch(decimal)
    found = int(match[1]) * 10**9 + int((match[2] or "").ljust(9, "0")) if match else 0
    if not found:
        raise Invalid(
            f'{name} must be a decimal number above 0, such as "100.00"', code="AMOUNT", field=name
        )
    return found


class TopUp(Body):
    amount: str = ""
    amount_nanos: str = ""
    currency: str = Field(pattern="^[A-Z]{3}$")
    reference: str = Field(min_length=1, max_length=200)

    def nanos(self) -> int:
        return _given("amount", self.amount, self.amount_nanos)


class NewPrice(Body):
    """For one GPU and one hour; it begins at ``effective_at``, or now if that is 0."""

    gpu_model: str = Field(pattern=MODEL)
    price: str = ""
    price_nanos: str = ""
    currency: str = Field(pattern="^[A-Z]{3}$")
    effective_at: int = Field(default=0, ge=0, lt=2**63)

    def message(self) -> pb.Price:
        return pb.Price(
            gpu_model=self.gpu_model,
            price_nanos=_given("price", self.price, self.price_nanos),
            per_gpu_us=_HOUR_US,
            currency=self.currency,
            effective_at=self.effective_at,
        )


def _top_up(ask: Ask) -> pb.TopUpRequest:
    return pb.TopUpRequest(
        tenant_id=ask.path["tenant_id"],
        amount_nanos=ask.body.nanos(),
        currency=ask.body.currency,
        reference=ask.body.reference,
    )


def operations() -> tuple[Operation, ...]:
    return (*_accounts(), *_invoices(), *_prices())


def _accounts() -> tuple[Operation, ...]:
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
            "/v1/tenants/{tenant_id}/top-ups",
            "Pays money into a tenant's account.",
            rpc("billing", "TopUp"),
            _top_up,
            answer="balance",
            status=201,
            body=TopUp,
        ),
    )


def _invoices() -> tuple[Operation, ...]:
    return (
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
    )


def _prices() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/prices",
            "Lists the prices in force.",
            rpc("billing", "ListPrices"),
            lambda ask: pb.ListPricesRequest(),
        ),
        asking(
            "POST",
            "/v1/prices",
            "Publishes a price for one GPU and one hour.",
            rpc("billing", "PublishPrice"),
            lambda ask: pb.PublishPriceRequest(price=ask.body.message()),
            answer="price",
            status=201,
            body=NewPrice,
        ),
    )
