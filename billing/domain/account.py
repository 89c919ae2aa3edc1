"""A tenant's account: what is prepaid, what is owed, and what is set aside for leases.

``prepaid_nanos`` and ``owed_nanos`` never go below zero, and never are both above it after money
came in: what comes in settles what is owed first. A hold knows how much was fed into it; how much
of that is spent, its lease's meter knows, and passes in.
"""

from __future__ import annotations

from typing import Any

from billing import funds, policy, postings
from billing.domain import account_exchanges, account_settlements, account_terms
from billing.domain.account_terms import AMOUNT_NANOS_MAX, CurrencyMismatch, ReferenceReused, Terms
from billing.policy import HoldRequest
from billing.postings import Posting
from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Invalid, Refused


class LeaseIdReused(Refused):
    default_code = "LEASE_ID_REUSED"


def account_id(tenant_id: str) -> str:
    return f"acc_{tenant_id}"


class Account(Terms, Aggregate):
    TOPIC = "billing.account"

    Rounded = account_settlements.Rounded
    Taxed = account_settlements.Taxed
    Credited = account_settlements.Credited
    CommitmentSettled = account_exchanges.CommitmentSettled
    Exchanged = account_exchanges.Exchanged
    TermsSet = account_terms.TermsSet
    PromoGranted = account_terms.PromoGranted
    PromoExpired = account_terms.PromoExpired
    RunwayShort = account_terms.RunwayShort

    def __init__(self, tenant_id: str, currency: str) -> None:
        self.tenant_id = tenant_id
        self.currency = currency
        self.prepaid_nanos = 0
        self.owed_nanos = 0
        # Payments by their reference, so that one payment counts once.
        self.payments: dict[str, int] = {}
        # Open holds by lease.
        self.holds: dict[str, dict[str, Any]] = {}
        # Terms: where its months begin, and how much it may owe.
        self.zone = "UTC"
        self.limit_nanos = 0
        # Promotional money: what was ever granted, and what is left of it.
        self.granted: dict[str, int] = {}
        self.grants: dict[str, dict[str, int]] = {}
        # Thresholds of the runway that were told of.
        self.alerted: dict[str, bool] = {}

    class Opened(FirstEvent):
        TOPIC = "billing.account.opened"
        tenant_id: str
        currency: str

    @classmethod
    def open(cls, tenant_id: str, currency: str, *, at: int) -> Account:
        return cls._create(
            cls.Opened,
            id=account_id(tenant_id),
            tenant_id=tenant_id,
            currency=currency,
            timestamp=at,
        )

    def top_up(self, amount_nanos: int, currency: str, reference: str, *, at: int) -> None:
        """Take a payment in. The same reference again is the same payment."""
        if not 0 < amount_nanos <= AMOUNT_NANOS_MAX:
            raise Invalid("a top-up is more than 0 and at most 10^18 nano-units", code="AMOUNT")
        if currency != self.currency:
            raise CurrencyMismatch(f"the account is in {self.currency}, the payment in {currency}")
        if reference in self.payments:
            if self.payments[reference] != amount_nanos:
                raise ReferenceReused(f"payment {reference!r} was of another amount")
            return
        if self.prepaid_nanos + amount_nanos > AMOUNT_NANOS_MAX:
            raise Refused("the balance would pass 10^18 nano-units", code="BALANCE_MAX")
        self.trigger_event(
            self.ToppedUp,
            amount_nanos=amount_nanos,
            currency=currency,
            reference=reference,
            postings=postings.top_up(self.tenant_id, amount_nanos, owed=self.owed_nanos),
            timestamp=at,
        )

    class ToppedUp(Aggregate.Event):
        TOPIC = "billing.account.topped_up"
        amount_nanos: int
        currency: str
        reference: str
        postings: list[Posting]

        def apply(self, account: Account) -> None:
            account._post(self.postings)
            account.alerted.clear()
            if self.reference:
                account.payments[self.reference] = self.amount_nanos

    def place_hold(
        self, request: HoldRequest, amount_nanos: int, *, expires_at: int, at: int
    ) -> None:
        """Set money aside that is there; ``expires_at`` 0 means until the lease ends."""
        promo = funds.drawn(amount_nanos, self.grants)
        self.trigger_event(
            self.HoldPlaced,
            lease_id=request.lease_id,
            amount_nanos=amount_nanos,
            expires_at=expires_at,
            postings=self._fed(request.lease_id, amount_nanos, promo),
            promo=promo,
            project=request.project,
            currency=self.currency,
            gpu_model=request.gpu_model,
            gpu_count=request.gpu_count,
            seconds_max=request.seconds_max,
            correlation_id=request.correlation_id or request.lease_id,
            timestamp=at,
        )

    class HoldPlaced(Aggregate.Event):
        TOPIC = "billing.account.hold_placed"
        lease_id: str
        amount_nanos: int
        expires_at: int
        postings: list[Posting]
        currency: str
        gpu_model: str
        gpu_count: int
        seconds_max: int
        correlation_id: str
        promo: dict[str, int]
        project: str

        def apply(self, account: Account) -> None:
            account._post(self.postings)
            account.holds[self.lease_id] = {
                "promo": {},
                "placed_nanos": self.amount_nanos,
                "fed_nanos": self.amount_nanos,
                "expires_at": self.expires_at,
                "gpu_model": self.gpu_model,
                "gpu_count": self.gpu_count,
                "seconds_max": self.seconds_max,
                "correlation_id": self.correlation_id,
                "exhausted": False,
            }
            account._draw(self.lease_id, vars(self).get("promo", {}))

    def same_hold(self, request: HoldRequest) -> int | None:
        """What is held for the lease already, if it is; refused if that was another request."""
        hold = self.holds.get(request.lease_id)
        if hold is None:
            return None
        for name in ("gpu_model", "gpu_count", "seconds_max"):
            if hold[name] != getattr(request, name):
                raise LeaseIdReused(f"lease {request.lease_id} has a hold with another {name}")
        return int(hold["placed_nanos"])

    def attach_hold(self, lease_id: str, *, at: int) -> None:
        """The lease is bound: from now on the hold lasts as long as the lease."""
        if self.holds[lease_id]["expires_at"]:
            self._renew(lease_id, policy.Feed(), at=at)

    def fund(self, lease_id: str, *, spent: int, needed: int, target: int, at: int) -> None:
        """Make the hold pay ``needed`` beyond what is ``spent``, and keep it near its target."""
        hold = self.holds[lease_id]
        held = hold["fed_nanos"] - spent
        feed = policy.feed(held=held, needed=needed, target=target, available=self.available_nanos)
        if feed.delta:
            self._renew(lease_id, feed, at=at)
        if feed.exhausted and not hold["exhausted"]:
            self.trigger_event(
                self.Exhausted,
                lease_id=lease_id,
                held_nanos=held + feed.delta - needed,
                target_nanos=target,
                correlation_id=hold["correlation_id"],
                timestamp=at,
            )

    def _renew(self, lease_id: str, feed: policy.Feed, *, at: int) -> None:
        promo = funds.drawn(feed.delta, self.grants)
        self.trigger_event(
            self.HoldRenewed,
            lease_id=lease_id,
            delta_nanos=feed.delta,
            expires_at=0,
            postings=self._fed(lease_id, feed.delta, promo),
            promo=promo,
            currency=self.currency,
            correlation_id=self.holds[lease_id]["correlation_id"],
            timestamp=at,
        )

    class HoldRenewed(Aggregate.Event):
        TOPIC = "billing.account.hold_renewed"
        lease_id: str
        delta_nanos: int
        expires_at: int
        postings: list[Posting]
        currency: str
        correlation_id: str
        promo: dict[str, int]

        def apply(self, account: Account) -> None:
            account._post(self.postings)
            hold = account.holds[self.lease_id]
            hold["fed_nanos"] += self.delta_nanos
            hold["expires_at"] = self.expires_at
            account._draw(self.lease_id, vars(self).get("promo", {}))

    class Exhausted(Aggregate.Event):
        TOPIC = "billing.account.exhausted"
        lease_id: str
        held_nanos: int
        target_nanos: int
        correlation_id: str

        def apply(self, account: Account) -> None:
            account.holds[self.lease_id]["exhausted"] = True

    def release_hold(self, lease_id: str, cause: str, *, spent: int = 0, at: int) -> None:
        """Give back what the lease did not spend. Releasing twice is releasing once."""
        hold = self.holds.get(lease_id)
        if hold is None:
            return
        amount = hold["fed_nanos"] - spent
        promo = funds.returned(amount, hold["fed_nanos"], hold["promo"])
        self.trigger_event(
            self.HoldReleased,
            lease_id=lease_id,
            amount_nanos=amount,
            cause=cause,
            postings=postings.release_hold(
                self.tenant_id,
                lease_id,
                amount,
                owed=self.owed_nanos,
                to_promo=sum(promo.values()),
            ),
            promo=promo,
            currency=self.currency,
            correlation_id=hold["correlation_id"],
            timestamp=at,
        )

    class HoldReleased(Aggregate.Event):
        TOPIC = "billing.account.hold_released"
        lease_id: str
        amount_nanos: int
        cause: str
        postings: list[Posting]
        currency: str
        correlation_id: str
        promo: dict[str, int]

        def apply(self, account: Account) -> None:
            account._post(self.postings)
            for grant_id, amount in vars(self).get("promo", {}).items():
                account.grants[grant_id]["left_nanos"] += amount
            del account.holds[self.lease_id]

    def _fed(self, lease_id: str, amount: int, promo: dict[str, int]) -> list[Posting]:
        from_promo = sum(promo.values())
        on_credit = max(0, amount - from_promo - self.prepaid_nanos)
        return postings.feed_hold(
            self.tenant_id, lease_id, amount, on_credit=on_credit, from_promo=from_promo
        )

    def _draw(self, lease_id: str, promo: dict[str, int]) -> None:
        """Note what a hold was fed with out of grants."""
        fed = self.holds[lease_id]["promo"]
        for grant_id, amount in promo.items():
            self.grants[grant_id]["left_nanos"] -= amount
            fed[grant_id] = fed.get(grant_id, 0) + amount

    def _attribute(self, event: Any) -> None:
        """An account has no intent that it follows from; its holds have one each."""
        correlation_id = vars(event).get("correlation_id", "")
        super()._attribute(event)
        vars(event)["correlation_id"] = correlation_id
