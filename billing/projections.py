"""What billing looks up, all of it folded from events and rebuilt by replay.

Views are told of a command's events after the command, so they do not show what the running
command itself has done; what must be seen at once (prepaid money, a meter's state) is in the
aggregates. Indexes by time are dicts in order of time, so the longest waiting is the first.
"""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

from billing import policy
from billing.domain import Account, Invoice, Meter, PriceBook
from billing.domain.invoice import credit_note
from chassis.application import View
from chassis.clock import SECOND

GONE_US = 7 * 24 * 3600 * SECOND


def entries(event: Any) -> list[dict[str, Any]]:
    """The postings of an event; none for most."""
    return vars(event).get("postings") or []


class Ledger(View):
    """Balances by currency and account: debits minus credits. An account at zero is left out."""

    def __init__(self) -> None:
        self.balances: dict[str, dict[str, int]] = {}
        # Of everything ever posted, by currency; anything but zero is a broken ledger.
        self.imbalance: dict[str, int] = {}
        self.posting_count = 0

    def apply(self, event: Any) -> None:
        for entry in entries(event):
            amount, currency = entry["amount_nanos"], event.currency
            accounts = self.balances.setdefault(currency, {})
            balance = accounts.get(entry["account"], 0) + amount
            if balance:
                accounts[entry["account"]] = balance
            else:
                accounts.pop(entry["account"], None)
            self.imbalance[currency] = self.imbalance.get(currency, 0) + amount
            self.posting_count += 1


class Balances(View):
    """What each tenant has: available, held for its leases, owed."""

    def __init__(self) -> None:
        self.tenants: dict[str, dict[str, Any]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Account.Opened):
            self.tenants[event.tenant_id] = {
                "currency": event.currency,
                "available": 0,
                "held": 0,
                "owed": 0,
            }
        for entry in entries(event):
            balance = self.tenants.get(event.tenant_id)
            if balance is None:
                return  # of the platform's, not of a tenant's
            match entry["account"].split(":", 2):
                case ["liability", "prepaid", _]:
                    balance["available"] -= entry["amount_nanos"]
                case ["liability", "hold", _]:
                    balance["held"] -= entry["amount_nanos"]
                case ["asset", "receivable", _]:
                    balance["owed"] += entry["amount_nanos"]


class Holds(View):
    """Whose lease has a hold, which holds wait to be bound, and which ended without a meter."""

    def __init__(self) -> None:
        self.tenants: dict[str, str] = {}
        # Lease to the time it expires, soonest first: every hold waits equally long.
        self.waiting: dict[str, int] = {}
        # Leases whose money was given back before they were metered: why and when, oldest first.
        self.gone: dict[str, list[Any]] = {}
        self.metered: dict[str, bool] = {}

    def apply(self, event: Any) -> None:
        tenant_id = event.tenant_id
        match event:
            case Account.HoldPlaced():
                self.tenants[event.lease_id] = tenant_id
                self.gone.pop(event.lease_id, None)
                if event.expires_at:
                    self.waiting[event.lease_id] = event.expires_at
            case Account.HoldRenewed():
                self.waiting.pop(event.lease_id, None)
            case Account.HoldReleased():
                self.waiting.pop(event.lease_id, None)
                del self.tenants[event.lease_id]
                if not self.metered.pop(event.lease_id, False):
                    self._remember(event.lease_id, event.cause, event.timestamp)
            case Meter.Opened():
                self.metered[event.lease_id] = True

    def _remember(self, lease_id: str, cause: str, at: int) -> None:
        """Long enough for any repetition of a request; not forever."""
        self.gone[lease_id] = [cause, at]
        for old in list(takewhile(lambda gone: self.gone[gone][1] < at - GONE_US, self.gone)):
            del self.gone[old]

    def ended(self, lease_id: str) -> bool:
        """Whether the lease is known to have ended without ever being active."""
        return lease_id in self.gone and self.gone[lease_id][0] == "ENDED"

    def expired(self, at: int, limit: int) -> list[str]:
        due = takewhile(lambda item: item[1] <= at, self.waiting.items())
        return [lease_id for lease_id, _ in islice(due, limit)]

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.waiting = dict(sorted(self.waiting.items(), key=lambda item: item[1]))
        self.gone = dict(sorted(self.gone.items(), key=lambda item: item[1][1]))


class Silence(View):
    """Open meters by the last time anything was recorded, longest ago first.

    A meter that is billed as far as it may be without its node is left out until the node speaks.
    """

    def __init__(self) -> None:
        self.last_at: dict[str, int] = {}
        self.reported_us: dict[str, int] = {}

    def apply(self, event: Any) -> None:
        meter = event.originator_id
        match event:
            case Meter.Opened():
                self._heard(event, 0)
            case Meter.Confirmed():
                if meter in self.reported_us:
                    self._heard(event, event.until_us)
            case Meter.SliceRecorded():
                if event.confirmed:
                    self._heard(event, event.until_us)
                else:
                    self.last_at.pop(meter, None)
                    if event.until_us - self.reported_us[meter] < policy.UNCONFIRMED_US_MAX:
                        self.last_at[meter] = event.timestamp
            case Meter.Closed():
                self.last_at.pop(meter, None)
                del self.reported_us[meter]

    def _heard(self, event: Any, reported_us: int) -> None:
        self.last_at.pop(event.originator_id, None)
        self.last_at[event.originator_id] = event.timestamp
        self.reported_us[event.originator_id] = reported_us

    def since(self, at: int, limit: int) -> list[str]:
        """Meters of which nothing was recorded after ``at``."""
        silent = takewhile(lambda item: item[1] <= at, self.last_at.items())
        return [meter for meter, _ in islice(silent, limit)]

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.last_at = dict(sorted(self.last_at.items(), key=lambda item: item[1]))


class Costs(View):
    """What each lease of a tenant has cost so far."""

    def __init__(self) -> None:
        self.tenants: dict[str, dict[str, dict[str, Any]]] = {}
        # Billed and not confirmed by a node, of all leases.
        self.unconfirmed_us = 0

    def apply(self, event: Any) -> None:
        tenant_id = event.tenant_id
        if isinstance(event, Meter.Opened):
            self.tenants.setdefault(tenant_id, {})[event.originator_id] = _opened(event)
            return
        if isinstance(event, Meter.Repriced | Meter.Reduced | Meter.MinimumCharged):
            self.tenants[tenant_id][event.originator_id]["amount_nanos"] += event.amount_nanos
            return
        if not isinstance(
            event, Meter.SliceRecorded | Meter.Confirmed | Meter.Closed | Meter.Invoiced
        ):
            return
        cost = self.tenants[tenant_id][event.originator_id]
        self.unconfirmed_us -= _unconfirmed(cost)
        self._change(cost, event)
        self.unconfirmed_us += _unconfirmed(cost)

    def _change(self, cost: dict[str, Any], event: Any) -> None:
        match event:
            case Meter.SliceRecorded():
                cost["metered_us"] = event.until_us
                cost["amount_nanos"] += event.amount_nanos
                if event.confirmed:
                    cost["confirmed_us"] += event.until_us - event.from_us
            case Meter.Confirmed():
                cost["confirmed_us"] += event.until_us - event.from_us
            case Meter.Closed():
                cost["ended_at"] = cost["activated_at"] + event.lease_us
                # A correction may have taken back time that the node had confirmed.
                cost["confirmed_us"] = min(cost["confirmed_us"], event.lease_us)
            case Meter.Invoiced():
                cost["invoice_id"] = event.invoice_id


def _unconfirmed(cost: dict[str, Any]) -> int:
    return max(0, int(cost["metered_us"]) - int(cost["confirmed_us"]))


def _opened(event: Any) -> dict[str, Any]:
    copied = (
        "lease_id", "workload_id", "project", "gpu_model", "gpu_count", "activated_at",
        "price_nanos", "per_gpu_us", "currency",
    )  # fmt: skip
    return {name: getattr(event, name) for name in copied} | {
        "ended_at": 0,
        "metered_us": 0,
        "confirmed_us": 0,
        "amount_nanos": 0,
        "invoice_id": "",
    }


class Uninvoiced(View):
    """Closed meters that are on no invoice, by tenant, in the order they closed."""

    def __init__(self) -> None:
        self.tenants: dict[str, dict[str, int]] = {}

    def apply(self, event: Any) -> None:
        tenant_id = event.tenant_id
        if isinstance(event, Meter.Closed):
            self.tenants.setdefault(tenant_id, {})[event.originator_id] = event.timestamp
        elif isinstance(event, Meter.Invoiced):
            del self.tenants[tenant_id][event.originator_id]

    def of(self, tenant_id: str) -> list[str]:
        return list(self.tenants.get(tenant_id, {}))

    def oldest(self, tenant_id: str, limit: int) -> list[str]:
        return list(islice(self.tenants.get(tenant_id, {}), limit))

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        for tenant_id, meters in self.tenants.items():
            self.tenants[tenant_id] = dict(sorted(meters.items(), key=lambda item: item[1]))


class Invoices(View):
    """Every invoice, and by tenant their ids in order of number."""

    def __init__(self) -> None:
        self.issued: dict[str, dict[str, Any]] = {}
        self.tenants: dict[str, list[str]] = {}

    def apply(self, event: Any) -> None:
        if isinstance(event, Invoice.Issued):
            self.tenants.setdefault(event.tenant_id, []).append(event.originator_id)
            names = ("tenant_id", "number", "currency", "lines", "total_nanos")
            facts = {name: getattr(event, name) for name in names}
            facts |= {"invoice_id": event.originator_id, "issued_at": event.timestamp}
            # Those of old invoices have no value: they were of no period, and bore no tax.
            for name, none in (("period_id", ""), ("tax_nanos", 0), ("tax_rounding", "")):
                facts[name] = vars(event).get(name, none)
            self.issued[event.originator_id] = facts | {"credits": []}
        elif isinstance(event, Invoice.Credited):
            self.issued[event.originator_id]["credits"].append(credit_note(event))

    def of(self, tenant_id: str) -> Iterator[dict[str, Any]]:
        for invoice_id in self.tenants.get(tenant_id, []):
            yield self.issued[invoice_id]

    def next_number(self, tenant_id: str) -> int:
        return len(self.tenants.get(tenant_id, [])) + 1


class Prices(View):
    """Every price, in order of publication."""

    def __init__(self) -> None:
        self.published: list[dict[str, Any]] = []

    def apply(self, event: Any) -> None:
        if isinstance(event, PriceBook.PricePublished):
            names = ("gpu_model", "price_nanos", "per_gpu_us", "currency", "effective_at")
            row = {name: getattr(event, name) for name in names}
            row |= {name: getattr(event, name) for name in _PRICE_TERMS}
            row["tiers"] = event.tiers or []
            self.published.append(row | {"price_version": event.price_version})


_PRICE_TERMS = ("form", "region", "market", "mode", "minimum_nanos", "granularity_us")


class Totals(View):
    """Running sums that must agree: all slices, those of closed leases, those of open ones."""

    def __init__(self) -> None:
        self.accepted_us = 0
        self.rated_us = 0
        self.pending: dict[str, int] = {}
        self.pending_us = 0
        self.exhausted_count = 0
        self.disputed_count = 0

    def apply(self, event: Any) -> None:
        match event:
            case Meter.Opened():
                self.pending[event.originator_id] = 0
            case Meter.SliceRecorded():
                length = event.until_us - event.from_us
                self.accepted_us += length
                self.pending[event.originator_id] += length
                self.pending_us += length
            case Meter.Closed():
                self.rated_us += event.lease_us
                self.pending_us -= self.pending.pop(event.originator_id)
            case Meter.Disputed():
                self.disputed_count += 1
            case Account.Exhausted():
                self.exhausted_count += 1

    @property
    def unaccounted_us(self) -> int:
        """Accepted, neither rated nor pending. Disputed time is rejected before it is accepted."""
        return self.accepted_us - self.rated_us - self.pending_us
