"""The aggregates of billing. Commands ask the rules and may refuse; ``apply`` only assigns.

Postings are made in commands, where ``billing.postings`` refuses what does not balance.
"""

from billing.domain.account import Account, account_id
from billing.domain.invoice import Invoice, invoice_id
from billing.domain.meter import Meter, meter_id
from billing.domain.period import Period, period_id
from billing.domain.price_book import PRICE_BOOK, PriceBook

__all__ = [
    "PRICE_BOOK",
    "Account",
    "Invoice",
    "Meter",
    "Period",
    "PriceBook",
    "account_id",
    "invoice_id",
    "meter_id",
    "period_id",
]
