"""The columns of the FOCUS 1.4 datasets: name, type, whether null may stand, level, allowed values.

FOCUS columns come first and in the order of the specification; ours begin with ``x_`` and follow.
"""

from dataclasses import dataclass
from enum import StrEnum

MANDATORY, CONDITIONAL, RECOMMENDED, OWN = "Mandatory", "Conditional", "Recommended", "Own"


class Kind(StrEnum):
    STRING = "String"
    DECIMAL = "Decimal"
    DATETIME = "Date/Time"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    nullable: bool
    level: str
    allowed: tuple[str, ...] = ()


_KINDS = {"S": Kind.STRING, "D": Kind.DECIMAL, "T": Kind.DATETIME, "J": Kind.JSON}
_LEVELS = {"M": MANDATORY, "C": CONDITIONAL, "R": RECOMMENDED, "X": OWN}

_ALLOWED: dict[str, tuple[str, ...]] = {
    "CapacityReservationStatus": ("Used", "Unused"),
    "ChargeCategory": ("Usage", "Purchase", "Tax", "Credit", "Adjustment"),
    "ChargeClass": ("Correction",),
    "ChargeFrequency": ("One-Time", "Recurring", "Usage-Based"),
    "CommitmentDiscountCategory": ("Spend", "Usage"),
    "CommitmentDiscountStatus": ("Used", "Unused"),
    "ContractCommitmentCategory": ("Spend", "Usage"),
    "ContractCommitmentLifecycleStatus": (
        "Proposed", "Pending", "Active", "Exhausted", "Expired", "Canceled", "Superseded",
    ),
    "InvoiceIssueStatus": ("Open", "Issued", "Voided"),
    "PricingCategory": ("Standard", "Dynamic", "Committed", "Other"),
    "x_ChargeKind": (
        "usage", "correction", "adjustment", "credit", "tax", "committed", "unused",
    ),
    "x_SliceState": ("confirmed", "unconfirmed", "partly"),
}  # fmt: skip


def _parsed(table: str) -> tuple[Column, ...]:
    """Lines such as ``D  M BilledCost``: type, ``n`` if null may stand, level, names."""
    columns = []
    for line in filter(str.strip, table.splitlines()):
        kind, level, *names = line.split()
        for name in names:
            columns.append(
                Column(
                    name,
                    _KINDS[kind[0]],
                    kind.endswith("n"),
                    _LEVELS[level],
                    _ALLOWED.get(name, ()),
                )
            )
    return tuple(columns)


COST_AND_USAGE = _parsed("""
Jn R AllocatedMethodDetails
Sn C AllocatedMethodId AllocatedResourceId AllocatedResourceName
Jn C AllocatedTags
Sn R AvailabilityZone
D  M BilledCost
S  M BillingAccountId
Sn M BillingAccountName
S  C BillingAccountType
S  M BillingCurrency
T  M BillingPeriodEnd BillingPeriodStart
Sn C CapacityReservationId CapacityReservationStatus
S  M ChargeCategory
Sn M ChargeClass ChargeDescription
S  R ChargeFrequency
T  M ChargePeriodEnd ChargePeriodStart
Sn C CommitmentDiscountCategory CommitmentDiscountId CommitmentDiscountName
Dn C CommitmentDiscountQuantity
Sn C CommitmentDiscountStatus CommitmentDiscountType CommitmentDiscountUnit
Jn C CommitmentProgramEligibilityDetails
Dn C ConsumedQuantity
Sn C ConsumedUnit
Jn C ContractApplied
D  M ContractedCost
Dn C ContractedUnitPrice
D  M EffectiveCost
S  M HostProviderName
Sn C InvoiceDetailId InvoiceId
S  M InvoiceIssuerName
D  M ListCost
Dn C ListUnitPrice
Sn C PricingCategory
S  C PricingCurrency
Dn C PricingCurrencyContractedUnitPrice
D  C PricingCurrencyEffectiveCost
Dn C PricingCurrencyListUnitPrice
Dn M PricingQuantity
Sn M PricingUnit
Sn C RegionId RegionName ResourceId ResourceName ResourceType
S  M ServiceCategory ServiceName ServiceProviderName
S  R ServiceSubcategory
Sn C SkuId SkuMeter
Jn C SkuPriceDetails
Sn C SkuPriceId SubAccountId SubAccountName SubAccountType
Jn C Tags
S  X x_ChargeKind
D  X x_ExactCost x_GpuSeconds
S  X x_LedgerHash
D  X x_LedgerSeq
Sn X x_LeaseId x_SliceState
""")

INVOICE_DETAIL = _parsed("""
D  M BilledCost
S  M BillingAccountId BillingCurrency
T  M BillingPeriodEnd BillingPeriodStart
S  M ChargeCategory
T  M InvoiceDetailCreated
Sn M InvoiceDetailDescription
Jn M InvoiceDetailGrain
S  M InvoiceDetailId
T  M InvoiceDetailLastUpdated
S  M InvoiceId
Tn M InvoiceIssueDate
S  M InvoiceIssueStatus InvoiceIssuerName PaymentCurrency
Tn M PaymentDueDate
S  M PaymentTerms ReferenceInvoiceId
Sn X x_LeaseId
""")

BILLING_PERIOD = _parsed("""
T  M BillingPeriodCreated BillingPeriodEnd BillingPeriodLastUpdated BillingPeriodStart
S  M BillingPeriodStatus InvoiceIssuerName
""")

CONTRACT_COMMITMENT = _parsed("""
Sn M BillingCurrency
Jn M ContractCommitmentApplicability
Sn M ContractCommitmentBenefitCategory
S  M ContractCommitmentCategory
Dn M ContractCommitmentCost
T  M ContractCommitmentCreated
Sn M ContractCommitmentDescription
Dn M ContractCommitmentDiscountPercentage
Sn M ContractCommitmentDurationType ContractCommitmentFulfillmentInterval
S  M ContractCommitmentId
T  M ContractCommitmentLastUpdated
S  M ContractCommitmentLifecycleStatus
Sn M ContractCommitmentModel ContractCommitmentOfferCategory ContractCommitmentPaymentInterval
Sn M ContractCommitmentPaymentModel
Dn M ContractCommitmentPaymentUpfrontPercentage
T  M ContractCommitmentPeriodEnd ContractCommitmentPeriodStart
Dn M ContractCommitmentQuantity
S  M ContractCommitmentType
Sn M ContractCommitmentUnit
S  M ContractId
T  M ContractPeriodEnd ContractPeriodStart
S  M InvoiceIssuerName
Sn M PricingCurrency
Dn M PricingCurrencyContractCommitmentCost
S  M ServiceProviderName
""")

DATASETS: dict[str, tuple[Column, ...]] = {
    "CostAndUsage": COST_AND_USAGE,
    "InvoiceDetail": INVOICE_DETAIL,
    "BillingPeriod": BILLING_PERIOD,
    "ContractCommitment": CONTRACT_COMMITMENT,
}
