"""The books, read from the stores themselves: what must be true however the story went."""

import json
from collections import defaultdict
from fractions import Fraction
from typing import Any

from chassis.store import Store
from leasehold.launcher.ports import SERVICES
from tests.waiting import wait_for

Event = dict[str, Any]

# By how much a job's own clock may be behind its lease: starting and reaping a process.
OVERHEAD_US_MAX = 1_500_000


class Books:
    def __init__(self, postgres_url: str) -> None:
        self._url = postgres_url

    def events(self, service: str, tenant_id: str = "") -> list[Event]:
        store = Store(self._url, service)
        try:
            rows = store.read(0, 1_000_000, tenant_id=tenant_id)
        finally:
            store.close()
        return [json.loads(row.data) for row in rows]

    def parked(self) -> list[Any]:
        found: list[Any] = []
        for service in SERVICES:
            store = Store(self._url, service)
            found += store.parked()
            store.close()
        return found

    def check(self, tenant_id: str, workload_ids: list[str]) -> dict[str, int]:
        """Assert every invariant of a finished story; answers each lease's microseconds."""
        wait_for(lambda: self.is_settled(tenant_id), seconds=60, what="the last posting")
        leases = self._check_leases(tenant_id, workload_ids)
        self._check_meters(tenant_id, leases)
        self._check_money(tenant_id)
        self._check_slots()
        assert self.parked() == []
        return {lease_id: ended - began for lease_id, (began, ended) in leases.items()}

    def is_settled(self, tenant_id: str) -> bool:
        """Every meter that was opened is closed and every hold is released."""
        topics = [event["meta"]["topic"] for event in self.events("billing", tenant_id)]
        opened, closed = topics.count("billing.meter.opened"), topics.count("billing.meter.closed")
        placed = topics.count("billing.account.hold_placed")
        return 0 < opened == closed and placed == topics.count("billing.account.hold_released")

    def _check_leases(self, tenant_id: str, workload_ids: list[str]) -> dict[str, tuple[int, int]]:
        """Every workload ended once, and every lease that was active ended once."""
        ended = [
            event["meta"]["aggregate_id"]
            for event in self.events("admission", tenant_id)
            if event["meta"]["topic"] == "admission.workload.ended"
        ]
        assert sorted(ended) == sorted(workload_ids)
        leases = {}
        states: dict[str, str] = {}
        for event in self.events("placement", tenant_id):
            verb = event["meta"]["topic"].rpartition(".")[2]
            lease_id = event["meta"]["aggregate_id"]
            states[lease_id] = verb
            if verb == "ended" and event["activated_at"]:
                assert not event["clamped"]
                assert lease_id not in leases
                leases[lease_id] = (event["activated_at"], event["ended_at"])
        assert set(states.values()) <= {"ended", "lapsed", "bind_refused"}
        assert len(leases) == len(workload_ids)
        return leases

    def _check_meters(self, tenant_id: str, leases: dict[str, tuple[int, int]]) -> None:
        """The slices of a lease tile it exactly, and cost its seconds times its price."""
        billed = self.events("billing", tenant_id)
        opened = {e["lease_id"]: e for e in billed if _is(e, "billing.meter.opened")}
        assert opened.keys() == leases.keys()
        for lease_id, (activated_at, ended_at) in leases.items():
            meter = opened[lease_id]
            mine = [e for e in billed if e["meta"]["aggregate_id"] == meter["meta"]["aggregate_id"]]
            slices = [e for e in mine if _is(e, "billing.meter.slice_recorded")]
            until = 0
            for one in slices:
                assert one["from_us"] == until
                until = one["until_us"]
            assert until == ended_at - activated_at
            gpu_us = until * meter["gpu_count"]
            exact = round(Fraction(meter["price_nanos"], meter["per_gpu_us"]) * gpu_us)
            assert sum(one["amount_nanos"] for one in slices) == exact
            (closed,) = (e for e in mine if _is(e, "billing.meter.closed"))
            assert (closed["gpu_us"], closed["amount_nanos"]) == (gpu_us, exact)

    def _check_money(self, tenant_id: str) -> None:
        """Every transaction balances, and nothing stays set aside."""
        accounts: dict[str, int] = defaultdict(int)
        for event in self.events("billing", tenant_id):
            postings = event.get("postings", [])
            assert sum(posting["amount_nanos"] for posting in postings) == 0
            for posting in postings:
                accounts[posting["account"]] += posting["amount_nanos"]
        assert not any(amount for name, amount in accounts.items() if ":hold:" in name)

    def _check_slots(self) -> None:
        """No GPU was ever in two leases at once."""
        taken: dict[tuple[str, int], str] = {}
        held: dict[str, list[tuple[str, int]]] = {}
        for event in self.events("placement"):
            verb, lease_id = (
                event["meta"]["topic"].rpartition(".")[2],
                event["meta"]["aggregate_id"],
            )
            if verb in ("held", "bound"):
                slots = [(event["node_id"], slot) for slot in event["slots"]]
                assert all(taken.setdefault(slot, lease_id) == lease_id for slot in slots)
                held[lease_id] = slots
            elif verb in ("ended", "lapsed"):
                for slot in held.pop(lease_id, []):
                    del taken[slot]


def _is(event: Event, topic: str) -> bool:
    return bool(event["meta"]["topic"] == topic)
