"""The datasets of FOCUS 1.4: where each column of each comes from. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from billing.exports.calendar import Period
from billing.exports.charges import cost_and_usage
from billing.exports.columns import DATASETS
from billing.exports.values import Source, category, detail_id, json_text
from billing.money import NANOS


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """A line of an issued invoice, or a credit note over one."""

    tenant_id: str
    invoice_id: str
    line: int
    period_start_us: int
    period_end_us: int
    currency: str
    amount_nanos: int
    kind: str
    issued_at: int
    description: str
    lease_id: str
    # The invoice that a credit note is about; its own id for an invoice.
    reference_id: str


def invoice_detail(issuer: str) -> dict[str, Source]:
    return {
        "BilledCost": lambda line: line.amount_nanos,
        "BillingAccountId": lambda line: line.tenant_id,
        "BillingCurrency": lambda line: line.currency,
        "BillingPeriodEnd": lambda line: line.period_end_us,
        "BillingPeriodStart": lambda line: line.period_start_us,
        "ChargeCategory": lambda line: category(line.kind),
        "InvoiceDetailCreated": lambda line: line.issued_at,
        "InvoiceDetailDescription": lambda line: line.description,
        "InvoiceDetailGrain": lambda line: json_text({"ResourceId": line.lease_id}),
        "InvoiceDetailId": lambda line: detail_id(line.invoice_id, line.line, line.kind),
        "InvoiceDetailLastUpdated": lambda line: line.issued_at,
        "InvoiceId": lambda line: line.invoice_id,
        "InvoiceIssueDate": lambda line: line.issued_at,
        "InvoiceIssueStatus": lambda line: "Issued",
        "InvoiceIssuerName": lambda line: issuer,
        "PaymentCurrency": lambda line: line.currency,
        "PaymentTerms": lambda line: "Prepaid",
        "ReferenceInvoiceId": lambda line: line.reference_id,
        "x_LeaseId": lambda line: line.lease_id or None,
    }


def billing_period(issuer: str) -> dict[str, Source]:
    def touched(period: Period) -> int:
        return period.closed_at or period.opened_at

    return {
        "BillingPeriodCreated": lambda period: period.opened_at,
        "BillingPeriodEnd": lambda period: period.end_us,
        "BillingPeriodLastUpdated": touched,
        "BillingPeriodStart": lambda period: period.start_us,
        "BillingPeriodStatus": lambda period: "Closed" if period.closed_at else "Open",
        "InvoiceIssuerName": lambda period: issuer,
    }


def contract_commitment(issuer: str) -> dict[str, Source]:
    return {
        "BillingCurrency": lambda one: one.currency,
        "ContractCommitmentCategory": lambda one: "Usage",
        "ContractCommitmentCost": lambda one: one.cost_nanos,
        "ContractCommitmentCreated": lambda one: one.agreed_at,
        "ContractCommitmentDescription": lambda one: f"{one.gpu_count} × {one.gpu_model} each hour",
        "ContractCommitmentId": lambda one: one.commitment_id,
        "ContractCommitmentLastUpdated": lambda one: one.agreed_at,
        "ContractCommitmentLifecycleStatus": lambda one: one.status,
        "ContractCommitmentPeriodEnd": lambda one: one.ends_at,
        "ContractCommitmentPeriodStart": lambda one: one.starts_at,
        "ContractCommitmentQuantity": lambda one: one.gpu_hours * NANOS,
        "ContractCommitmentType": lambda one: "Reserved GPUs",
        "ContractCommitmentUnit": lambda one: "GPU-Hours",
        "ContractId": lambda one: one.commitment_id,
        "ContractPeriodEnd": lambda one: one.ends_at,
        "ContractPeriodStart": lambda one: one.starts_at,
        "InvoiceIssuerName": lambda one: issuer,
        "PricingCurrency": lambda one: one.currency,
        "PricingCurrencyContractCommitmentCost": lambda one: one.cost_nanos,
        "ServiceProviderName": lambda one: issuer,
    }


_MAPPINGS: dict[str, Callable[[str], dict[str, Source]]] = {
    "CostAndUsage": cost_and_usage,
    "InvoiceDetail": invoice_detail,
    "BillingPeriod": billing_period,
    "ContractCommitment": contract_commitment,
}


def sources(dataset: str, issuer: str) -> list[Source]:
    """One source for each column of the dataset, in its order."""
    mapping = _MAPPINGS[dataset](issuer)
    return [mapping.get(column.name, _null) for column in DATASETS[dataset]]


def _null(row: Any) -> None:
    return None
