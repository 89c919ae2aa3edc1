"""Prices, and everything that changes what a running lease costs: commands on book and meters.

Whatever changes the terms of a lease is an event of its meter that carries the money by which
billed time became dearer or cheaper. So a meter's money is at every moment the price of its time.
"""

from collections.abc import Sequence
from fractions import Fraction

from billing import policy
from billing.domain import PRICE_BOOK, Account, Meter, PriceBook, account_id, meter_id
from billing.domain.meter import Activation
from billing.policy import Market, Price, Sku
from billing.pricing_views import Slots
from billing.rating import Window
from billing.shares import Claim, SharesOverOne, peak
from chassis.application import Application

# Later than any lease ends: the end of a window that has none yet.
OPEN_US = 2**62


class Pricing(Application):
    currency: str
    slots: Slots

    def publish_price(self, price: Price, *, at: int) -> Price:
        book = self.find(PriceBook, PRICE_BOOK) or PriceBook.open(self.currency, at=at)
        published = book.publish(price, at=at)
        self.save(book)
        return published

    def publish_missing(self, prices: Sequence[Price], *, at: int) -> None:
        """Publish the prices of models that never had one."""
        book = self.find(PriceBook, PRICE_BOOK) or PriceBook.open(self.currency, at=at)
        for price in prices:
            if not book.history(price.gpu_model):
                book.publish(price, at=at)
        self.save(book)

    def price_of(self, sku: Sku, at: int) -> Price | None:
        book = self.find(PriceBook, PRICE_BOOK)
        return book.price(sku, at) if book else None

    def opening_price(self, activation: Activation) -> Price | None:
        """What a lease begins with; a clock behind ours must not make its price unknown."""
        book = self.find(PriceBook, PRICE_BOOK)
        if book is None:
            return None
        sku = activation.sku
        return book.price(sku, activation.activated_at) or book.first_price(sku)

    def check_shares(self, activation: Activation) -> None:
        """Refuse a lease by which more than all of one GPU would be leased at any instant."""
        claim = Claim(activation.lease_id, activation.activated_at, 0, activation.share)
        for slot in activation.slots:
            others = self.slots.claims_on(activation.node_id, slot)
            if (most := peak([*others, claim], claim.from_)) > 1:
                raise SharesOverOne(
                    f"lease {claim.lease_id} would bring slot {slot} of {activation.node_id} "
                    f"to {most} of a GPU"
                )

    def reprice(self, meter: Meter, until_us: int, *, at: int) -> None:
        """Let a spot lease pass through the prices published for the time up to ``until_us``."""
        if meter.market != Market.SPOT:
            return
        book = self.get(PriceBook, PRICE_BOOK)
        start = meter.activated_at
        for edge, price in book.schedule(meter.sku, start, start + until_us):
            known = [(row["from_us"], row["price_version"]) for row in meter.segments]
            if (edge - start, price.version) not in known:
                meter.reprice(edge - start, price, at=at)
                self._settle(meter, at=at)

    def constrain(self, lease_id: str, step: str, since: int, *, at: int) -> None:
        """Enforcement slows a lease down, or lifts that; its SLA tier says what slow time costs."""
        meter = self.find(Meter, meter_id(lease_id))
        if meter is None or meter.closed:
            return
        factor = policy.throttled_factor(meter.sla_tier)
        from_us = max(0, since - meter.activated_at)
        begun = [row["from_us"] for row in meter.windows if row["until_us"] == OPEN_US]
        if factor == 1 or bool(step) == bool(begun):
            return
        window = Window(from_us, OPEN_US, factor) if step else Window(begun[0], from_us, factor)
        meter.reduce(window, "THROTTLED", at=at)
        self._settle(meter, at=at)

    def free_last_minute(self, meter: Meter, lease_us: int, *, at: int) -> None:
        """The platform took the GPUs back: the last minute that it cut short costs nothing."""
        from_us = max(0, lease_us - policy.PREEMPTED_FREE_US)
        if from_us < lease_us:
            meter.reduce(Window(from_us, OPEN_US, Fraction(0)), "PREEMPTED", at=at)
            self._settle(meter, at=at)

    def charge_minimum(self, meter: Meter, *, at: int) -> None:
        meter.charge_minimum(at=at)
        self._settle(meter, at=at)

    def _settle(self, meter: Meter, *, at: int) -> None:
        """The hold pays for what the terms made dearer before the meter takes it."""
        account = self.get(Account, account_id(meter.tenant_id))
        account.fund(meter.lease_id, spent=meter.spent_nanos, needed=0, target=0, at=at)
        self.save(account)
        self.save(meter)
