"""The rules of FOCUS that a single value cannot show: within a row, between rows, between files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from billing.exports.findings import Finding, Rule

Row = Mapping[str, Any]

JOINED = ("InvoiceIssuerName", "InvoiceId", "InvoiceDetailId")
_NANO = Decimal("1e-9")
_PRICED = (("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice"))
_UNITS = (
    ("PricingQuantity", "PricingUnit"),
    ("ConsumedQuantity", "ConsumedUnit"),
    ("CommitmentDiscountQuantity", "CommitmentDiscountUnit"),
)


def of_a_row(dataset: str, number: int, row: Row) -> Iterator[Finding]:
    for name in ("BillingPeriod", "ChargePeriod", "ContractPeriod", "ContractCommitmentPeriod"):
        start, end = row.get(f"{name}Start"), row.get(f"{name}End")
        if start is not None and end is not None and start >= end:
            yield Finding(Rule.PERIOD_REVERSED, number, f"{name}End", "is not after its start")
    if dataset == "CostAndUsage":
        yield from _times(number, row)
        yield from _costs(number, row)
        yield from _commitment(number, row)
    if row.get("ChargeCategory") == "Credit" and row["BilledCost"] > 0:
        yield Finding(Rule.CREDIT_ABOVE_ZERO, number, "BilledCost", f"{row['BilledCost']}")


def _times(number: int, row: Row) -> Iterator[Finding]:
    inside = (
        row["BillingPeriodStart"] <= row["ChargePeriodStart"]
        and row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
    )
    if not inside and row["ChargeClass"] != "Correction":
        detail = "the charge lies outside of its billing period and is no correction"
        yield Finding(Rule.CHARGE_OUTSIDE_PERIOD, number, "ChargePeriodStart", detail)


def _costs(number: int, row: Row) -> Iterator[Finding]:
    for quantity, unit in _UNITS:
        if (row.get(quantity) is None) != (row.get(unit) is None):
            detail = f"stands without {quantity if row.get(quantity) is None else unit}"
            column = unit if row.get(quantity) is None else quantity
            yield Finding(Rule.QUANTITY_WITHOUT_UNIT, number, column, detail)
    amount = row["PricingQuantity"]
    if amount is None and row["ChargeCategory"] in ("Usage", "Purchase"):
        detail = f"a charge of category {row['ChargeCategory']} has a quantity"
        yield Finding(Rule.USAGE_WITHOUT_QUANTITY, number, "PricingQuantity", detail)
    for cost, price in _PRICED:
        unit_price = row.get(price)
        if amount is None or unit_price is None:
            continue
        # Quantity and price have nine decimals, so their product is known only so well.
        unknown = (abs(unit_price) + abs(amount) + 2) * _NANO
        if abs(row[cost] - unit_price * amount) > unknown:
            detail = f"{row[cost]} is not {unit_price} × {amount}"
            yield Finding(Rule.COST_IS_NOT_PRICE_TIMES_QUANTITY, number, cost, detail)


def _commitment(number: int, row: Row) -> Iterator[Finding]:
    for name in ("CommitmentDiscount", "CapacityReservation"):
        status, identity = row.get(f"{name}Status"), row.get(f"{name}Id")
        if status is not None and identity is None:
            detail = f"{status} says nothing without {name}Id"
            yield Finding(Rule.COMMITMENT_INCOMPLETE, number, f"{name}Status", detail)
    unused = "Unused" in (row.get("CommitmentDiscountStatus"), row.get("CapacityReservationStatus"))
    if unused and row.get("ConsumedQuantity") is not None:
        detail = "what was not used was not consumed"
        yield Finding(Rule.COMMITMENT_INCOMPLETE, number, "ConsumedQuantity", detail)


@dataclass(slots=True)
class Between:
    """Rules between the rows of CostAndUsage, and with InvoiceDetail if it is given."""

    payable: Mapping[tuple[Any, ...], Any] | None
    last: tuple[Any, ...] = ()
    sums: dict[tuple[Any, ...], Decimal] = field(default_factory=dict)
    currencies: dict[str, str] = field(default_factory=dict)

    def findings(self, number: int, row: Row) -> Iterator[Finding]:
        order = (row["BillingAccountId"], row["ChargePeriodStart"])
        if self.last and order < self.last:
            yield Finding(Rule.NOT_SORTED, number, "ChargePeriodStart", "comes before its row")
        self.last = order
        invoice, detail = row.get("InvoiceId"), row.get("InvoiceDetailId")
        if (invoice is None) != (detail is None):
            text = "InvoiceId and InvoiceDetailId stand together or not at all"
            yield Finding(Rule.DETAIL_WITHOUT_INVOICE, number, "InvoiceDetailId", text)
        if invoice is None or detail is None:
            return
        if self.currencies.setdefault(invoice, row["BillingCurrency"]) != row["BillingCurrency"]:
            text = f"{invoice} is in {self.currencies[invoice]}"
            yield Finding(Rule.CURRENCIES_OF_ONE_INVOICE, number, "BillingCurrency", text)
        key = tuple(row[name] for name in JOINED)
        self.sums[key] = self.sums.get(key, Decimal(0)) + row["BilledCost"]

    def at_the_end(self) -> Iterator[Finding]:
        """Every line is the sum of its charges, and every charge's line exists."""
        if self.payable is None:
            return
        for key, total in self.sums.items():
            if key not in self.payable:
                yield Finding(Rule.DETAIL_UNKNOWN, 0, "InvoiceDetailId", f"{key[2]} is no line")
            elif self.payable[key] != total:
                detail = f"the charges of {key[2]} sum to {total}, payable is {self.payable[key]}"
                yield Finding(Rule.INVOICE_SUM, 0, "BilledCost", detail)
        for key, amount in self.payable.items():
            if key not in self.sums and amount:
                detail = f"the charges of {key[2]} are missing, payable is {amount}"
                yield Finding(Rule.INVOICE_SUM, 0, "BilledCost", detail)
