"""Everything that funding, periods and credits record, happening once in a world."""

from billing.domain.account_terms import Grant
from billing.money import HOUR_US, NANOS
from tests.billing.world import ACME, World

LEASE = "lse_funded"
CENT = 10_000_000


def change_funds(world: World) -> None:
    billing = world.billing
    world.tell(lambda at: billing.set_terms(ACME, "Europe/Zurich", 1_000 * NANOS, at=at))
    while world.tell(lambda at: billing.close_due(at=at)):
        pass
    world.tell(lambda at: billing.set_budget(ACME, "research", 1, 0, "operator", at=at))
    grant = Grant("welcome", NANOS, "USD", world.now + HOUR_US, "welcome")
    world.tell(lambda at: billing.grant_promo(ACME, grant, at=at))
    billing.tax = lambda line, currency: CENT
    world.running(LEASE)
    since = world.now
    world.tell(lambda at: billing.impair(LEASE, ACME, "throttle", since, "enforcement/0/1", at=at))
    world.tell(lambda at: billing.restore(LEASE, since + 1, "enforcement/0/2", at=at))
    world.wait(HOUR_US // 10)
    world.ended(HOUR_US // 10, LEASE)
    world.running(f"{LEASE}_2", gpu_count=99)
    world.wait(HOUR_US)
    world.tell(lambda at: billing.watch_money(at=at))
    invoice = world.invoice()
    line = max(invoice["lines"], key=lambda one: one["amount_nanos"])["line"]
    world.tell(
        lambda at: billing.credit_line(invoice["invoice_id"], line, CENT, "as agreed", at=at)
    )
    world.ended(0, f"{LEASE}_2")
    world.tell(lambda at: billing.watch_money(at=at))
    period = billing.periods.current(ACME)
    assert period is not None
    world.now = period["ends_at"]
    while world.tell(lambda at: billing.close_due(at=at)):
        pass
