"""What a file that claims to be FOCUS can have wrong with it."""

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    # Of the header.
    COLUMN_MISSING = "COLUMN_MISSING"
    COLUMN_UNKNOWN = "COLUMN_UNKNOWN"
    COLUMN_REPEATED = "COLUMN_REPEATED"
    COLUMN_ORDER = "COLUMN_ORDER"
    # Of one value.
    TYPE = "TYPE"
    NULL = "NULL"
    ALLOWED_VALUE = "ALLOWED_VALUE"
    CURRENCY = "CURRENCY"
    # Of one row.
    ROW_LENGTH = "ROW_LENGTH"
    PERIOD_REVERSED = "PERIOD_REVERSED"
    CHARGE_OUTSIDE_PERIOD = "CHARGE_OUTSIDE_PERIOD"
    COST_IS_NOT_PRICE_TIMES_QUANTITY = "COST_IS_NOT_PRICE_TIMES_QUANTITY"
    QUANTITY_WITHOUT_UNIT = "QUANTITY_WITHOUT_UNIT"
    USAGE_WITHOUT_QUANTITY = "USAGE_WITHOUT_QUANTITY"
    CREDIT_ABOVE_ZERO = "CREDIT_ABOVE_ZERO"
    DETAIL_WITHOUT_INVOICE = "DETAIL_WITHOUT_INVOICE"
    COMMITMENT_INCOMPLETE = "COMMITMENT_INCOMPLETE"
    # Between rows and files.
    NOT_SORTED = "NOT_SORTED"
    DETAIL_REPEATED = "DETAIL_REPEATED"
    CURRENCIES_OF_ONE_INVOICE = "CURRENCIES_OF_ONE_INVOICE"
    INVOICE_SUM = "INVOICE_SUM"
    DETAIL_UNKNOWN = "DETAIL_UNKNOWN"


@dataclass(frozen=True, slots=True)
class Finding:
    """``row`` counts from 1 after the header; 0 is the file as a whole."""

    rule: Rule
    row: int
    column: str
    detail: str

    def __str__(self) -> str:
        where = f"row {self.row}: " if self.row else ""
        column = f"{self.column}: " if self.column else ""
        return f"{where}{column}{self.detail} ({self.rule})"
