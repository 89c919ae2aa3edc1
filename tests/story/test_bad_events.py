"""Somebody with a service's own bus password publishes what the service never recorded.

Consumers ask the owner's log about everything that does not continue it and everything without
its seal, so none of this is applied, none of it is parked, nobody halts, and the owner puts its
stream right again.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from chassis import canonical
from chassis.bus import Bus
from chassis.envelope import MESSAGE_ID, Origin, headers, subject
from chassis.events import Recorded
from leasehold.cli import audit
from leasehold.launcher.platform import Platform
from tests.story.books import Books
from tests.story.customer import SignUp
from tests.story.heads import Heads
from tests.waiting import wait_for

pytestmark = pytest.mark.story

# Importing it prints a poem, so that an import would show in the log of whoever did it.
MODULE = "this"
POEM = "Beautiful is better than ugly"
ATTACKED = {
    "gateway": ("admission", "billing"),
    "placement": ("admission", "billing", "enforcement"),
}


@dataclass(frozen=True)
class Poison:
    data: bytes
    headers: dict[str, str]


@pytest.fixture
def heads(platform: Platform) -> Iterator[Heads]:
    heads = Heads(platform)
    yield heads
    heads.close()


def test_what_the_owner_did_not_record_is_not_applied(
    platform: Platform, sign_up: SignUp, books: Books, heads: Heads
) -> None:
    sign_up("before")  # so that every attacked log has a last event
    run(sign_up, books, "before-poison")
    rolls = {source: metric(platform, source, "leasehold_relay_rolls") for source in ATTACKED}
    with heads.unchanged():
        for source, consumers in ATTACKED.items():
            refused = {one: refusals(platform, one, source) for one in consumers}
            poisons = asyncio.run(publish(platform, heads, source))
            for one in consumers:
                wait_for(
                    lambda one=one, source=source, least=refused[one] + poisons: (
                        refusals(platform, one, source) >= least
                    ),
                    seconds=30,
                    what=f"{one} has refused what {source} did not record",
                )
        heads.at_rest()
    assert books.parked() == []
    for consumer in {one for consumers in ATTACKED.values() for one in consumers}:
        assert metric(platform, consumer, "leasehold_consumer_halted") == 0
    assert all(POEM not in log.read_text() for log in (platform.state / "logs").glob("*.log"))

    run(sign_up, books, "after-poison")
    for source in ATTACKED:
        wait_for(
            lambda source=source: metric(platform, source, "leasehold_relay_rolls") > rolls[source],
            seconds=30,
            what=f"{source} has replaced its stream",
        )
        wait_for(lambda source=source: is_whole(platform, source), what="a stream as recorded")


def test_a_forgery_that_continues_the_chain_without_a_fault_is_not_applied(
    platform: Platform, sign_up: SignUp, books: Books, heads: Heads
) -> None:
    """All that a bus password is good for: what comes next, right in everything but the seal."""
    sign_up("before-forgery")  # so that there is an event to forge from
    consumers = ATTACKED["gateway"]
    with heads.unchanged():
        refused = {one: refusals(platform, one, "gateway") for one in consumers}
        forged_id = asyncio.run(publish_next(platform, heads))
        for one in consumers:
            wait_for(
                lambda one=one: refusals(platform, one, "gateway") > refused[one],
                seconds=30,
                what=f"{one} has refused the forged tenant",
            )
        heads.at_rest()
    for service in consumers:
        store = heads.stores[service]
        assert not store.read(0, 1, tenant_id=forged_id), f"{service} believed it"

    # The gateway's next event takes the very place that the forgery claimed.
    run(sign_up, books, "after-forgery")
    assert books.parked() == []
    for one in consumers:
        assert metric(platform, one, "leasehold_consumer_halted") == 0
    for service in ("gateway", *consumers):
        wait_for(
            lambda service=service: is_whole(platform, service),
            seconds=30,
            what=f"{service} as recorded",
        )


async def publish_next(platform: Platform, heads: Heads) -> str:
    """Publish a sign-up that never was, as the gateway's next event; answers its tenant."""
    store, forged_id = heads.stores["gateway"], "ten_forgedforgedforged"
    head = store.head()
    signed_up = store.read(0, 1, topics=["gateway.tenant.signed_up"])[0]
    facts = canonical.loads(signed_up.data)
    facts["meta"] |= {"aggregate_id": forged_id, "tenant_id": forged_id}
    data = canonical.dumps(facts)
    event = signed_up._replace(
        position=head.position + 1,
        aggregate_id=forged_id,
        tenant_id=forged_id,
        data=data,
        hash=canonical.chained(head.hash, data),
    )
    bus = Bus(platform.environments.nats_urls["gateway"], "gateway")
    named = headers(Origin("gateway", 0, store.incarnation()), event)
    await (await bus.jetstream()).publish(subject(event), data, headers=named)
    await bus.close()
    return forged_id


async def publish(platform: Platform, heads: Heads, source: str) -> int:
    """Publish under the source's name; answers how many messages contradict its log."""
    store = heads.stores[source]
    origin = Origin(source, 0, store.incarnation())
    (last,) = store.read(store.head().position - 1, 1)
    poisons = contradictions(origin, last)
    bus = Bus(platform.environments.nats_urls[source], source)
    jetstream = await bus.jetstream()
    # A leap ahead contradicts nothing yet; its owner just does not have what it leaps over.
    leap = forged(origin, last, position=last.position + 1001, prev=last.position + 1000)
    for poison in [leap, *poisons]:
        await jetstream.publish(subject(last), poison.data, headers=poison.headers)
    await bus.close()
    return len(poisons)


def contradictions(origin: Origin, last: Recorded) -> list[Poison]:
    following = {"position": last.position + 1, "prev": last.position}
    hostile = [f"{MODULE}:s", f"{origin.service}.{MODULE}:s", f"{origin.service}.tenant.promoted"]
    return [
        Poison(b"\x00 not JSON", {}),
        Poison(b"[" * 100_000, {}),
        Poison(b"{}", {"ce-position": "1", "ce-prev": "0"}),
        # The last event again, with another tenant in it.
        forged(origin, last, position=last.position, prev=last.position - 1),
        # What comes next, but with a hash, a predecessor or a database that is not the owner's.
        forged(origin, last, **following, hash_=bytes(32)),
        forged(origin, last, position=last.position + 1, prev=last.position - 1),
        forged(origin, last, **following, incarnation="another"),
        forged(origin, last, **following, position_text="-1"),
        *(forged(origin, last, **following, hash_=bytes(32), topic=topic) for topic in hostile),
    ]


def forged(
    origin: Origin,
    last: Recorded,
    *,
    position: int,
    prev: int,
    hash_: bytes = b"",
    incarnation: str = "",
    position_text: str = "",
    topic: str = "",
) -> Poison:
    """An event as the relay would publish it, but for what is named."""
    facts = canonical.loads(last.data)
    facts["meta"] |= {"tenant_id": "ten_forged", "topic": topic or last.topic}
    facts["originator_topic"] = topic or last.topic
    data = canonical.dumps(facts)
    event = last._replace(
        position=position,
        data=data,
        topic=topic or last.topic,
        hash=hash_ or canonical.chained(last.hash, data),
    )
    named = headers(origin, event) | {"ce-prev": str(prev)}
    del named[MESSAGE_ID]  # the server would drop it as a repeat
    if incarnation:
        named["ce-incarnation"] = incarnation
    if position_text:
        named["ce-position"] = position_text
    return Poison(data, named)


def run(sign_up: SignUp, books: Books, name: str) -> None:
    """A whole story."""
    customer = sign_up(name)
    workload_id = customer.submit(name, "true")
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    assert customer.workload(workload_id)["state"] == "SUCCEEDED"
    books.check(customer.tenant_id, [workload_id])


def is_whole(platform: Platform, service: str) -> bool:
    found = platform.addresses()
    finding = asyncio.run(audit.verify(found["postgres_url"], found["nats_url"], service))
    return not finding.difference and not finding.unchecked


def refusals(platform: Platform, consumer: str, source: str) -> float:
    return metric(platform, consumer, "leasehold_consumer_refused", source=source)


def metric(platform: Platform, process: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples; 0 as long as it has none."""
    page = httpx.get(f"{platform.addresses()['metrics'][process]}/metrics", trust_env=False)
    samples = (
        sample
        for family in text_string_to_metric_families(page.text)
        if family.name == name
        for sample in family.samples
        if not sample.name.endswith("_created") and sample.labels.items() >= labels.items()
    )
    return sum(sample.value for sample in samples)
