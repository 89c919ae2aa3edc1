"""The terms of an account: credit, zone, promotional money, and how long the money lasts.

Promotional money is a liability like prepaid money, in grants that expire; what expires unspent
becomes income. A warning is given once, until money comes in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from billing import funds, postings
from billing.domain.account_settlements import Settlements
from billing.postings import Posting
from chassis.aggregates import Aggregate
from chassis.errors import Invalid, Refused

AMOUNT_NANOS_MAX = 10**18


class CurrencyMismatch(Refused):
    default_code = "CURRENCY_MISMATCH"


class ReferenceReused(Refused):
    default_code = "REFERENCE_REUSED"


@dataclass(frozen=True, slots=True)
class Grant:
    """Promotional money; ``grant_id`` makes it count once, ``source`` is what it costs us."""

    grant_id: str
    amount_nanos: int
    currency: str
    expires_at: int
    reason: str
    source: str = postings.PROMOTION


class Terms(Settlements):
    """The part of an account that says how far its money reaches."""

    # The account names its events; see there.
    TermsSet: ClassVar[Any]
    PromoGranted: ClassVar[Any]
    PromoExpired: ClassVar[Any]
    RunwayShort: ClassVar[Any]

    zone: str
    limit_nanos: int
    granted: dict[str, int]
    grants: dict[str, dict[str, int]]
    alerted: dict[str, bool]

    def set_terms(self, zone: str, credit_limit_nanos: int, *, at: int) -> None:
        """The zone counts for periods opened from now on, the limit at once."""
        if not 0 <= credit_limit_nanos <= AMOUNT_NANOS_MAX:
            raise Invalid("a credit limit is from 0 to 10^18 nano-units", code="AMOUNT")
        if (zone, credit_limit_nanos) != (self.zone, self.limit_nanos):
            self.trigger_event(
                self.TermsSet, zone=zone, credit_limit_nanos=credit_limit_nanos, timestamp=at
            )

    def grant(self, grant: Grant, *, at: int) -> None:
        """Promotional money that is spent before all other, and gone when it expires."""
        if not 0 < grant.amount_nanos <= AMOUNT_NANOS_MAX:
            raise Invalid("a grant is above 0 and at most 10^18 nano-units", code="AMOUNT")
        if grant.currency != self.currency:
            raise CurrencyMismatch(f"the account is in {self.currency}, not in {grant.currency}")
        if grant.expires_at <= at:
            raise Invalid("a grant expires in the future", code="EXPIRES_AT")
        if grant.grant_id in self.granted:
            if self.granted[grant.grant_id] != grant.amount_nanos:
                raise ReferenceReused(f"grant {grant.grant_id!r} was of another amount")
            return
        self.trigger_event(
            self.PromoGranted,
            grant_id=grant.grant_id,
            amount_nanos=grant.amount_nanos,
            expires_at=grant.expires_at,
            reason=grant.reason,
            currency=self.currency,
            postings=postings.grant(self.tenant_id, grant.amount_nanos, grant.source),
            timestamp=at,
        )

    def expire_promo(self, *, at: int) -> None:
        """Take back what expired unspent; what leases hold of it is theirs until they end."""
        for grant_id in sorted(self.grants):
            grant = self.grants[grant_id]
            if grant["expires_at"] <= at and grant["left_nanos"]:
                self.trigger_event(
                    self.PromoExpired,
                    grant_id=grant_id,
                    amount_nanos=grant["left_nanos"],
                    currency=self.currency,
                    postings=postings.expire(self.tenant_id, grant["left_nanos"]),
                    timestamp=at,
                )

    def warn(self, runway_us: int, burn_nanos: int, threshold_us: int, *, at: int) -> None:
        """Say that the money lasts no longer than a threshold; once, until more comes in."""
        if str(threshold_us) not in self.alerted:
            self.trigger_event(
                self.RunwayShort,
                threshold_us=threshold_us,
                runway_us=runway_us,
                available_nanos=self.available_nanos,
                burn_hour_nanos=burn_nanos,
                timestamp=at,
            )

    @property
    def promo_nanos(self) -> int:
        return sum(int(grant["left_nanos"]) for grant in self.grants.values())

    @property
    def available_nanos(self) -> int:
        return funds.available(
            prepaid=self.prepaid_nanos,
            promo=self.promo_nanos,
            limit=self.limit_nanos,
            owed=self.owed_nanos,
        )


class TermsSet(Aggregate.Event):
    TOPIC = "billing.account.terms_set"
    zone: str
    credit_limit_nanos: int

    def apply(self, account: Terms) -> None:
        account.zone = self.zone
        account.limit_nanos = self.credit_limit_nanos
        account.alerted.clear()


class PromoGranted(Aggregate.Event):
    TOPIC = "billing.account.promo_granted"
    grant_id: str
    amount_nanos: int
    expires_at: int
    reason: str
    currency: str
    postings: list[Posting]

    def apply(self, account: Terms) -> None:
        account._post(self.postings)
        account.granted[self.grant_id] = self.amount_nanos
        account.grants[self.grant_id] = {
            "left_nanos": self.amount_nanos,
            "expires_at": self.expires_at,
        }
        account.alerted.clear()


class PromoExpired(Aggregate.Event):
    TOPIC = "billing.account.promo_expired"
    grant_id: str
    amount_nanos: int
    currency: str
    postings: list[Posting]

    def apply(self, account: Terms) -> None:
        account._post(self.postings)
        account.grants[self.grant_id]["left_nanos"] = 0


class RunwayShort(Aggregate.Event):
    TOPIC = "billing.account.runway_short"
    threshold_us: int
    runway_us: int
    available_nanos: int
    burn_hour_nanos: int

    def apply(self, account: Terms) -> None:
        account.alerted[str(self.threshold_us)] = True
