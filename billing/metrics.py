"""Billing's totals as metrics: read from views when scraped, so a restart does not reset them.

The listener scrapes from another thread, so only single numbers are read here, nothing is
iterated.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from billing.application import Billing


class LedgerMetrics(Collector):
    def __init__(self, billing: Billing) -> None:
        self._billing = billing

    def collect(self) -> Iterator[Metric]:
        ledger, totals = self._billing.ledger, self._billing.totals
        yield CounterMetricFamily(
            "billing_postings", "Postings ever made", value=ledger.posting_count
        )
        yield CounterMetricFamily(
            "billing_accounts_exhausted",
            "Leases whose balance ran out",
            value=totals.exhausted_count,
        )
        yield CounterMetricFamily(
            "billing_disputes", "Reports of nodes that cannot be true", value=totals.disputed_count
        )
        yield GaugeMetricFamily(
            "billing_unconfirmed_us",
            "Lease time billed that no node confirmed",
            value=self._billing.costs.unconfirmed_us,
        )
        yield GaugeMetricFamily(
            "billing_unaccounted_us",
            "Accepted minus rated minus pending lease time; anything but 0 is a fault",
            value=totals.unaccounted_us,
        )
        yield GaugeMetricFamily(
            "billing_imbalance_nanos",
            "Sum of all postings in the platform's currency; anything but 0 is a fault",
            value=ledger.imbalance.get(self._billing.currency, 0),
        )
