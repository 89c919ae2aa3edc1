"""Charge rows as CostAndUsage of FOCUS 1.4. Pure."""

from collections.abc import Callable

from billing.exports.rows import COMMITTED, UNUSED, USAGE, ChargeRow
from billing.exports.values import Source, Value, category, detail_id, json_text
from billing.money import HOUR_US, NANOS, Rate, half_even

_MARKETS = {"spot": "Dynamic", "reserved": "Committed"}


def _is_time(row: ChargeRow) -> bool:
    return row.per_gpu_us > 0


def _is_committed(row: ChargeRow) -> bool:
    return row.kind in (COMMITTED, UNUSED)


def _is_metered(row: ChargeRow) -> bool:
    return _is_time(row) or _is_committed(row)


def _gpu_hours(row: ChargeRow) -> int:
    return half_even(row.gpu_us * NANOS, HOUR_US)


def _pricing_category(row: ChargeRow) -> Value:
    if _is_committed(row):
        return "Committed"
    return _MARKETS.get(row.market, "Standard") if _is_time(row) else None


def _commitment_columns() -> dict[str, Source]:
    def of_one(value: Callable[[ChargeRow], Value]) -> Source:
        return lambda row: value(row) if _is_committed(row) else None

    return {
        "CommitmentDiscountCategory": of_one(lambda row: "Usage"),
        "CommitmentDiscountId": of_one(lambda row: row.commitment_id),
        "CommitmentDiscountQuantity": of_one(_gpu_hours),
        "CommitmentDiscountStatus": of_one(
            lambda row: "Used" if row.kind == COMMITTED else "Unused"
        ),
        "CommitmentDiscountType": of_one(lambda row: "Reserved GPUs"),
        "CommitmentDiscountUnit": of_one(lambda row: "GPU-Hours"),
    }


def _description(row: ChargeRow) -> str:
    if _is_committed(row):
        return f"committed time, {'used' if row.kind == COMMITTED else 'not used'}"
    if not _is_time(row):
        return f"{row.kind} ({row.topic})"
    taken_back = "" if row.kind == USAGE else ", taken back"
    return f"{row.gpu_count} × {row.gpu_model} leased{taken_back}"


def _unit_price(row: ChargeRow) -> Value:
    return Rate(row.price_nanos, row.per_gpu_us).amount(HOUR_US) if _is_time(row) else None


def _of_time(value: Callable[[ChargeRow], Value]) -> Source:
    return lambda row: value(row) if _is_time(row) else None


def _details(row: ChargeRow) -> str:
    return json_text({"GpuCount": row.gpu_count, "x_GpuModel": row.gpu_model})


def _tags(row: ChargeRow) -> str:
    return json_text({"project": row.project, "workload": row.workload_id})


def _cost(row: ChargeRow) -> Value:
    """What the price says: the exact amount for time, what is billed for anything else."""
    return row.amount_nanos if _is_time(row) else row.billed_nanos


def cost_and_usage(issuer: str) -> dict[str, Source]:
    """Where each column of CostAndUsage comes from; what is not named is null."""
    return {
        "BilledCost": lambda row: row.billed_nanos,
        "BillingAccountId": lambda row: row.tenant_id,
        "BillingAccountType": lambda row: "Tenant",
        "BillingCurrency": lambda row: row.currency,
        "BillingPeriodEnd": lambda row: row.period_end_us,
        "BillingPeriodStart": lambda row: row.period_start_us,
        "ChargeCategory": lambda row: category(row.kind),
        "ChargeClass": lambda row: "Correction" if row.late else None,
        "ChargeDescription": _description,
        "ChargeFrequency": lambda row: "Usage-Based" if _is_metered(row) else "One-Time",
        "ChargePeriodEnd": lambda row: row.end_us,
        "ChargePeriodStart": lambda row: row.start_us,
        **_commitment_columns(),
        # What leases used of a commitment is consumed on their own rows.
        "ConsumedQuantity": _of_time(lambda row: row.gpu_us * 1_000),
        "ConsumedUnit": _of_time(lambda row: "GPU-Seconds"),
        "ContractedCost": _cost,
        "ContractedUnitPrice": _unit_price,
        "EffectiveCost": _cost,
        "HostProviderName": lambda row: issuer,
        "InvoiceDetailId": lambda row: detail_id(row.invoice_id, row.line, row.kind),
        "InvoiceId": lambda row: row.invoice_id or None,
        "InvoiceIssuerName": lambda row: issuer,
        "ListCost": _cost,
        "ListUnitPrice": _unit_price,
        "PricingCategory": _pricing_category,
        "PricingCurrency": lambda row: row.currency,
        "PricingCurrencyContractedUnitPrice": _unit_price,
        "PricingCurrencyEffectiveCost": _cost,
        "PricingCurrencyListUnitPrice": _unit_price,
        "PricingQuantity": lambda row: _gpu_hours(row) if _is_metered(row) else None,
        "PricingUnit": lambda row: "GPU-Hours" if _is_metered(row) else None,
        "RegionId": lambda row: row.region or None,
        "RegionName": lambda row: row.region or None,
        "ResourceId": lambda row: row.lease_id or None,
        "ResourceName": lambda row: row.workload_id or None,
        "ResourceType": lambda row: "GPU Lease" if row.lease_id else None,
        "ServiceCategory": lambda row: "Compute",
        "ServiceName": lambda row: "GPU leases",
        "ServiceProviderName": lambda row: issuer,
        "ServiceSubcategory": lambda row: "Other (Compute)",
        "SkuId": _of_time(lambda row: row.gpu_model),
        "SkuMeter": _of_time(lambda row: "GPU time"),
        "SkuPriceDetails": _of_time(_details),
        "SkuPriceId": _of_time(lambda row: f"{row.gpu_model}/{row.price_version}"),
        "SubAccountId": lambda row: row.project or None,
        "SubAccountName": lambda row: row.project or None,
        "SubAccountType": lambda row: "Project" if row.project else None,
        "Tags": _of_time(_tags),
        "x_ChargeKind": lambda row: row.kind,
        "x_ExactCost": lambda row: row.amount_nanos,
        "x_GpuSeconds": lambda row: row.gpu_us * 1_000,
        "x_LeaseId": lambda row: row.lease_id or None,
        "x_LedgerHash": lambda row: row.hash,
        "x_LedgerSeq": lambda row: row.position * NANOS,
        "x_SliceState": lambda row: row.state or None,
    }
