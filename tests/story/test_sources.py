"""Capacity from a provider on a bad day: one request is one VM, and nothing is deleted by guess."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from chassis import ids
from leasehold.launcher.platform import Platform
from tests.story.books import Books, Event
from tests.story.customer import Caller, operator
from tests.story.heads import Heads
from tests.waiting import wait_for

pytestmark = pytest.mark.story

CALM = dict.fromkeys(("lose_answer", "server_error", "rate_limit", "partial_page", "not_json"), 0)
MANY = 1000


@dataclass
class Market:
    """The simulated provider as it is behind our back, and our own view of it."""

    staff: Caller
    provider: httpx.Client
    platform: Platform
    source_id: str

    def troubled(self, **faults: int) -> dict[str, int]:
        """Sets how many of the next calls go wrong; answers how many are left to."""
        left: dict[str, int] = self.provider.put("/faults", json=faults).json()
        return left

    def machines(self, tag: str) -> list[dict[str, Any]]:
        """From the provider's own file: asking it would use up its faults."""
        kept = json.loads((self.platform.state / "provider.json").read_text())
        return [machine for machine in kept.values() if machine["tag"] == tag]

    def request(self, offer: str = "h100x8") -> dict[str, Any]:
        order = {"source_id": self.source_id, "offer": offer}
        found: dict[str, Any] = self.staff.post("/v1/instances", order)
        return found

    def instance(self, instance_id: str) -> dict[str, Any] | None:
        """None once it is gone."""
        instances = self.staff.get("/v1/instances")["instances"]
        return next((one for one in instances if one["instance_id"] == instance_id), None)

    def wait_for_running(self, instance_id: str) -> dict[str, Any]:
        def running() -> dict[str, Any] | None:
            found = self.instance(instance_id)
            return found if found and found["status"] == "running" else None

        return wait_for(running, seconds=30, what="the instance runs") or {}

    def give_back(self, instance_id: str) -> None:
        self.staff.send("DELETE", f"/v1/instances/{instance_id}")
        wait_for(lambda: self.instance(instance_id) is None, seconds=30, what="it is gone")

    def audit(self) -> dict[str, Any]:
        report: dict[str, Any] = self.staff.post(f"/v1/sources/{self.source_id}/audit")
        return report


@pytest.fixture
def market(platform: Platform) -> Iterator[Market]:
    staff, url = operator(platform), platform.addresses()["provider_url"]
    sources = staff.get("/v1/sources")["sources"]
    (source,) = (source for source in sources if source["name"] == "simulated")
    with httpx.Client(base_url=url, trust_env=False) as provider:
        market = Market(staff, provider, platform, source["source_id"])
        yield market
        market.troubled(**CALM)
    staff.close()


@pytest.mark.parametrize(
    "trouble",
    [
        {},
        {"lose_answer": 1},
        {"server_error": 2, "rate_limit": 1},
        {"lose_answer": 1, "rate_limit": 1, "not_json": 1},
    ],
    ids=["none", "a lost answer", "errors and limits", "all at once"],
)
def test_one_request_is_one_machine_whatever_the_provider_answers(
    market: Market, books: Books, trouble: dict[str, int]
) -> None:
    market.troubled(**trouble)
    requested = market.request()
    running = market.wait_for_running(requested["instance_id"])
    (machine,) = market.machines(requested["tag"])
    assert running["provider_id"] == machine["id"]
    assert running["price_nanos_per_hour"] == "15920000000"
    created = one_event(books, requested["instance_id"], "created")
    assert created["found_by_tag"] is bool(trouble.get("lose_answer"))
    market.give_back(requested["instance_id"])
    assert market.machines(requested["tag"]) == []


def test_what_the_provider_does_not_sell_fails_once_and_leaves_nothing(
    market: Market, books: Books
) -> None:
    requested = market.request("h200x8")
    instance_id = requested["instance_id"]
    failed = wait_for(lambda: events_of(books, instance_id)[1:], what="the failure is recorded")
    assert [event["meta"]["topic"] for event in failed] == ["aggregator.instance.failed"]
    assert market.machines(requested["tag"]) == []


def test_an_instance_is_gone_when_it_is_no_longer_listed_and_not_before(
    market: Market, books: Books
) -> None:
    requested = market.request()
    instance_id = requested["instance_id"]
    market.wait_for_running(instance_id)
    market.troubled(server_error=MANY)
    market.staff.send("DELETE", f"/v1/instances/{instance_id}")
    wait_for(lambda: market.troubled()["server_error"] <= MANY - 2, what="the provider was asked")
    assert (market.instance(instance_id) or {})["status"] == "terminating"
    assert len(market.machines(requested["tag"])) == 1
    market.troubled(**CALM)
    wait_for(lambda: market.instance(instance_id) is None, seconds=30, what="it is gone")
    assert market.machines(requested["tag"]) == []
    one_event(books, instance_id, "gone")


def test_a_machine_that_nobody_rents_is_reported_and_not_touched(
    market: Market, books: Books
) -> None:
    kept = market.request()
    market.wait_for_running(kept["instance_id"])
    tag = f"leasehold-{ids.new('ins')}"
    orphan = market.provider.post("/v1/instances", json={"offer": "a100x8", "tag": tag}).json()
    foreign = market.provider.post("/v1/instances", json={"offer": "a100x8", "tag": "web"}).json()
    for _ in range(2):
        report = market.audit()
        assert report["aborted"] == ""
        (found,) = report["orphans"]
        assert (found["provider_id"], found["kind"]) == (orphan["id"], "ORPHAN_VM")
        assert found["price_nanos_per_hour"] == "8800000000"
        assert len(market.machines(tag)) == len(market.machines("web")) == 1
    noted = [
        event
        for event in events_of(books, market.source_id)
        if event.get("provider_id") == orphan["id"]
    ]
    assert len(noted) == 1, "what was found is recorded once"
    for machine in (orphan, foreign):
        market.provider.delete(f"/v1/instances/{machine['id']}")
    assert market.audit()["orphans"] == []
    assert events_of(books, market.source_id)[-1]["meta"]["topic"].endswith("orphan_cleared")
    market.give_back(kept["instance_id"])


def test_a_partial_or_empty_inventory_proves_nothing(platform: Platform, market: Market) -> None:
    kept = market.request()
    running = market.wait_for_running(kept["instance_id"])
    heads = Heads(platform)
    with heads.unchanged():
        market.troubled(partial_page=1)
        report = market.audit()
        assert (report["aborted"], report["orphans"]) == ("the provider's list is partial", [])
        # It loses the machine without a word, and lists nothing at all.
        market.provider.delete(f"/v1/instances/{running['provider_id']}")
        report = market.audit()
        assert "lists nothing" in report["aborted"]
        assert report["orphans"] == []
    heads.close()
    market.give_back(kept["instance_id"])


def events_of(books: Books, aggregate_id: str) -> list[Event]:
    return [
        event
        for event in books.events("aggregator")
        if event["meta"]["aggregate_id"] == aggregate_id
    ]


def one_event(books: Books, instance_id: str, verb: str) -> Event:
    (found,) = (
        event
        for event in events_of(books, instance_id)
        if event["meta"]["topic"] == f"aggregator.instance.{verb}"
    )
    return found
