"""Billing's workflows: load, ask the rules, save. Every one can be repeated and comes in any order.

Only an account's own events touch prepaid money, so whether a tenant can pay is decided on the
account alone; the meter then spends what the hold was funded with, in the same command.
"""

from collections.abc import Sequence
from typing import Any

from billing import policy
from billing.commitments import Committing
from billing.domain import Account, Invoice, Meter, Period, PriceBook, account_id, meter_id
from billing.domain.account import LeaseIdReused
from billing.domain.budget import Budget
from billing.domain.commitment import Commitment
from billing.domain.impairment import Impairment
from billing.domain.log_tree import LogTree
from billing.domain.meter import Activation
from billing.exchange import Exchanging
from billing.money import shown
from billing.policy import HoldAnswer, HoldRequest, MoneyRefusal, Price, Slice, Verdict
from billing.pricing import Pricing
from billing.pricing_views import Slots
from billing.projections import (
    Balances,
    Costs,
    Holds,
    Invoices,
    Ledger,
    Prices,
    Silence,
    Totals,
    Uninvoiced,
)
from billing.proof.recording import TreeRecording
from billing.providers import PROVIDER_AGGREGATES, Providers
from billing.sla_credits import ServiceCredits
from chassis.application import Log
from chassis.clock import SECOND
from chassis.errors import NotFound, Refused

# So many due meters and holds in one command, so that others need not wait long.
TICK_ITEMS_MAX = 200


class Billing(TreeRecording, Pricing, Committing, Exchanging, Providers, ServiceCredits):
    service = "billing"
    aggregates = (
        Account, PriceBook, Meter, Invoice, Period, Budget, Impairment, LogTree,
        *PROVIDER_AGGREGATES, Commitment,
    )  # fmt: skip

    # Settings; __main__ sets them.
    currency = "USD"
    hold_window_us = 600 * SECOND
    silence_us = 30 * SECOND

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.ledger = Ledger()
        self.balances = Balances()
        self.holds = Holds()
        self.silence = Silence()
        self.costs = Costs()
        self.uninvoiced = Uninvoiced()
        self.invoices = Invoices()
        self.prices = Prices()
        self.totals = Totals()
        self.slots = Slots()
        self.views = {
            "slots": self.slots,
            "ledger": self.ledger,
            "balances": self.balances,
            "holds": self.holds,
            "silence": self.silence,
            "costs": self.costs,
            "uninvoiced": self.uninvoiced,
            "invoices": self.invoices,
            "prices": self.prices,
            "totals": self.totals,
        }
        self.watch_invoicing()
        self.watch_commitments()
        self.watch_funding()
        self.add_provider_views()
        self.watch_tree()

    # Accounts and prices.

    def open_account(self, tenant_id: str, *, at: int) -> Account:
        account = self.find(Account, account_id(tenant_id))
        if account is None:
            account = Account.open(tenant_id, self.currency, at=at)
            self.save(account)
        return account

    def top_up(
        self, tenant_id: str, amount_nanos: int, currency: str, reference: str, *, at: int
    ) -> dict[str, Any]:
        account = self.get(Account, account_id(tenant_id))
        account.top_up(amount_nanos, currency, reference, at=at)
        self.save(account)
        held = self.balances.tenants.get(tenant_id, {}).get("held", 0)
        return {
            "currency": account.currency,
            "available": account.prepaid_nanos,
            "held": held,
            "owed": account.owed_nanos,
        }

    # Holds.

    def place_holds(self, requests: Sequence[HoldRequest], *, at: int) -> list[HoldAnswer]:
        answers: list[HoldAnswer] = []
        # What this call holds, by tenant and project; the views do not show it yet.
        placed: list[tuple[str, str, int]] = []
        for request in requests:
            own = [
                (project, size) for tenant, project, size in placed if tenant == request.tenant_id
            ]
            answers.append(answer := self._place_hold(request, own, at=at))
            if answer.refusal is None:
                placed.append((request.tenant_id, request.project, answer.amount_nanos))
        return answers

    def _place_hold(
        self, request: HoldRequest, before: Sequence[tuple[str, int]], *, at: int
    ) -> HoldAnswer:
        account = self.find(Account, account_id(request.tenant_id))
        if account is None:
            return _refused(request, MoneyRefusal.NO_ACCOUNT, f"no account of {request.tenant_id}")
        if self.holds.tenants.get(request.lease_id, request.tenant_id) != request.tenant_id:
            raise LeaseIdReused(f"lease {request.lease_id} is another tenant's")
        if (placed := account.same_hold(request)) is not None:
            return HoldAnswer(request.lease_id, placed)
        price = self.price_of(request.sku, at)
        if price is None:
            detail = f"no price is published for {request.gpu_model}"
            return _refused(request, MoneyRefusal.NO_PRICE, detail)
        if request.lease_id in self.holds.gone or self.find(Meter, meter_id(request.lease_id)):
            return _refused(request, MoneyRefusal.LAPSED, "the hold of this lease was released")
        size = self._hold_size(price, request)
        if size > (available := account.available_nanos):
            needed, left = (shown(one, account.currency) for one in (size, available))
            detail = f"{needed} is needed, {left} is available"
            return _refused(request, MoneyRefusal.BALANCE, detail, size)
        if passed := self.over_budget(request, size, before):
            return _refused(request, MoneyRefusal.BUDGET, passed, size)
        account.place_hold(request, size, expires_at=at + policy.HOLD_LIFE_US, at=at)
        self.save(account, because=request.causation_id)
        return HoldAnswer(request.lease_id, size)

    def release_holds(self, lease_ids: Sequence[str], cause: str, *, at: int) -> None:
        """Give back the money of leases that were not bound; others keep theirs to the end."""
        for lease_id in lease_ids:
            tenant_id = self.holds.tenants.get(lease_id)
            if tenant_id is None:
                continue
            account = self.get(Account, account_id(tenant_id))
            if account.holds.get(lease_id, {}).get("expires_at"):
                account.release_hold(lease_id, cause, at=at)
                self.save(account)

    def attach_hold(self, request: HoldRequest, *, at: int) -> None:
        """The lease is bound. If its hold is gone, as much of it is held again as there is."""
        account = self.open_account(request.tenant_id, at=at)
        if request.lease_id in account.holds:
            account.attach_hold(request.lease_id, at=at)
        elif not self.find(Meter, meter_id(request.lease_id)):
            price = self.price_of(request.sku, at)
            target = self._hold_size(price, request) if price else 0
            amount = min(target, account.available_nanos)
            account.place_hold(request, amount, expires_at=0, at=at)
            account.fund(request.lease_id, spent=0, needed=0, target=target, at=at)
        self.save(account)

    # Metering.

    def open_meter(self, activation: Activation, *, at: int) -> None:
        """The lease is active. Without any price this fails, and the event waits for one."""
        if self.find(Meter, meter_id(activation.lease_id)):
            return
        price = self.opening_price(activation)
        if price is None:
            raise Refused(f"no price is published for {activation.gpu_model}", code="NO_PRICE")
        self.check_shares(activation)
        self.attach_hold(
            HoldRequest(
                lease_id=activation.lease_id,
                tenant_id=activation.tenant_id,
                gpu_model=activation.gpu_model,
                gpu_count=activation.gpu_count,
                seconds_max=0,
                correlation_id=activation.correlation_id,
                form=activation.form,
                share=activation.share,
                region=activation.region,
                market=activation.market,
            ),
            at=at,
        )
        self.save(Meter.open(activation, price, at=at))

    def record_slices(self, node_id: str, slices: Sequence[Slice], *, at: int) -> list[Verdict]:
        return [self._record(node_id, slice_, at=at) for slice_ in slices]

    def _record(self, node_id: str, slice_: Slice, *, at: int) -> Verdict:
        meter = self.find(Meter, meter_id(slice_.lease_id))
        if meter is None:
            ended = self.holds.ended(slice_.lease_id)
            return Verdict.NEVER_ACTIVE if ended else Verdict.RETRY
        verdict = policy.verdict(slice_, meter.known(at), node_id)
        if verdict in (Verdict.RECORD, Verdict.BEYOND_END):
            self._take(meter, slice_, at=at)
        if verdict in policy.DISPUTES:
            meter.dispute(slice_, verdict, at=at)
            self.save(meter)
        return verdict

    def _take(self, meter: Meter, slice_: Slice, *, at: int) -> None:
        until_us = min(slice_.until_us, meter.lease_us) if meter.closed else slice_.until_us
        for piece in policy.pieces(meter.billed_us, slice_.from_us, until_us):
            if piece.billed:
                meter.confirm(piece, slice_.seq, at=at)
                self.save(meter)
            elif piece.confirmed:
                self._fund(meter, piece.until_us, at=at)
                meter.bill(
                    piece.until_us, confirmed=True, seq=slice_.seq, boot_id=slice_.boot_id, at=at
                )
                self.save(meter)
            else:
                self._bill_unconfirmed(meter, piece.until_us, at=at)

    def _bill_unconfirmed(self, meter: Meter, until_us: int, *, at: int) -> None:
        self._fund(meter, until_us, at=at)
        meter.bill(until_us, at=at)
        self.save(meter)

    def _fund(self, meter: Meter, until_us: int, *, at: int) -> None:
        """See to it that the hold can pay up to ``until_us`` and covers the time after it."""
        self.reprice(meter, until_us, at=at)
        account = self.get(Account, account_id(meter.tenant_id))
        hold = account.holds[meter.lease_id]
        target = policy.hold_size(
            meter.hold_rate,
            meter.gpu_count,
            hold["seconds_max"],
            window_us=self.hold_window_us,
            used_us=until_us,
        )
        account.fund(
            meter.lease_id,
            spent=meter.spent_nanos,
            needed=meter.cost_until(until_us),
            target=target,
            at=at,
        )
        self.save(account)

    def tick(self, *, at: int) -> bool:
        """Do what is due by the clock, a bounded amount; whether more may be due."""
        expired = self.holds.expired(at, TICK_ITEMS_MAX)
        self.release_holds(expired, "EXPIRED", at=at)
        billed = 0
        for aggregate_id in self.silence.since(at - self.silence_us, TICK_ITEMS_MAX):
            meter = self.get(Meter, aggregate_id)
            furthest = meter.reported_us + policy.UNCONFIRMED_US_MAX
            until_us = min(meter.lasted_us(at), furthest)
            if until_us > meter.billed_us:
                self._bill_unconfirmed(meter, until_us, at=at)
                billed += 1
        return TICK_ITEMS_MAX in (len(expired), billed)

    def close_meter(self, lease_id: str, ended_at: int, *, cause: str = "", at: int) -> None:
        """The lease has ended: bill what is missing, or give back, and release the hold."""
        meter = self.find(Meter, meter_id(lease_id))
        if meter is None:
            self._release_unmetered(lease_id, at=at)
            return
        if meter.closed:
            return
        lease_us = max(0, ended_at - meter.activated_at)
        self.reprice(meter, lease_us, at=at)
        if cause == "PREEMPTED":
            self.free_last_minute(meter, lease_us, at=at)
        account = self.get(Account, account_id(meter.tenant_id))
        if lease_us != meter.billed_us:
            needed = meter.cost_until(lease_us)
            account.fund(lease_id, spent=meter.spent_nanos, needed=needed, target=0, at=at)
            self.save(account)
            meter.bill(lease_us, at=at)
            self.save(meter)
        self.charge_minimum(meter, at=at)
        meter.close(at=at)
        self.save(meter)
        account.release_hold(lease_id, "ENDED", spent=meter.spent_nanos, at=at)
        self.save(account)

    def _release_unmetered(self, lease_id: str, *, at: int) -> None:
        if tenant_id := self.holds.tenants.get(lease_id):
            account = self.get(Account, account_id(tenant_id))
            account.release_hold(lease_id, "ENDED", at=at)
            self.save(account)

    # Questions; answered from views.

    def balance(self, tenant_id: str) -> dict[str, Any]:
        balance = self.balances.tenants.get(tenant_id)
        if balance is None:
            raise NotFound(f"no account of {tenant_id!r}", code="ACCOUNT_NOT_FOUND")
        return balance

    def invoice(self, invoice_id: str, tenant_id: str = "") -> dict[str, Any]:
        """An invoice, if it is the tenant's; "" stands for any tenant."""
        invoice = self.invoices.issued.get(invoice_id)
        if invoice is None or tenant_id not in ("", invoice["tenant_id"]):
            raise NotFound(f"no invoice {invoice_id!r}", code="INVOICE_NOT_FOUND")
        return invoice

    def _hold_size(self, price: Price, request: HoldRequest) -> int:
        return policy.hold_size(
            price.tariff.dearest,
            request.gpu_count,
            request.seconds_max,
            window_us=self.hold_window_us,
        )


def _refused(
    request: HoldRequest, refusal: MoneyRefusal, detail: str, amount_nanos: int = 0
) -> HoldAnswer:
    return HoldAnswer(request.lease_id, amount_nanos, refusal, detail)
