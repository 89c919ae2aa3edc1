"""Sources and instances: what is recorded, what an inventory proves, and that replay agrees."""

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from aggregator import policy
from aggregator.application import Aggregator
from aggregator.domain import Instance
from aggregator.policy import Held, Inventory, Machine, OrphanKind
from chassis.errors import Invalid, NotFound, Refused
from chassis.memory import Direct, MemoryLog
from leasehold.aggregator.v1 import source_events_pb2

NOON = 1_767_268_800_000_000
LATER = NOON + 3_600_000_000
ENDPOINT = "http://127.0.0.1:1"
VM = Machine("vm_1", policy.tag_of("ins_1"), "running", 15_920_000_000, "USD")


def test_an_instance_is_gone_only_when_the_provider_no_longer_lists_it() -> None:
    log, aggregator, run = onboarded()
    run(lambda: aggregator.request_instance("ins_1", "src_1", "h100x8", at=NOON))
    run(lambda: aggregator.created("ins_1", VM, found_by_tag=False, at=NOON))
    run(lambda: aggregator.terminate("ins_1", "REQUESTED", at=NOON))
    assert aggregator.get(Instance, "ins_1").status == "terminating"
    run(lambda: aggregator.gone("ins_1", at=NOON))
    assert aggregator.get(Instance, "ins_1").status == "gone"
    assert aggregator.unfinished() == []


def test_an_instance_that_is_not_running_cannot_be_terminated() -> None:
    log, aggregator, run = onboarded()
    run(lambda: aggregator.request_instance("ins_1", "src_1", "h100x8", at=NOON))
    with pytest.raises(Refused, match="requested, not running"):
        run(lambda: aggregator.terminate("ins_1", "REQUESTED", at=NOON))


def test_onboarding_twice_is_onboarding_once_and_a_name_is_not_reused() -> None:
    log, aggregator, run = onboarded()
    again = run(lambda: aggregator.onboard("src_2", "sim", "simulated", ENDPOINT, at=NOON))
    assert again.id == "src_1"
    with pytest.raises(Refused):
        run(lambda: aggregator.onboard("src_3", "sim", "simulated", "http://127.0.0.1:2", at=NOON))


def test_an_unknown_provider_and_an_unknown_source_are_refused() -> None:
    log, aggregator, run = onboarded()
    with pytest.raises(Invalid, match="no adapter"):
        run(lambda: aggregator.onboard("src_2", "x", "moon-cloud", ENDPOINT, at=NOON))
    with pytest.raises(NotFound):
        run(lambda: aggregator.request_instance("ins_1", "src_404", "h100x8", at=NOON))


HELD = Held("ins_1", VM.tag, "vm_1", NOON)
STRANGER = Machine("vm_9", "somebody-else", "running", 1, "USD")
ORPHAN = Machine("vm_2", policy.tag_of("ins_404"), "running", 7, "USD")
TWIN = Machine("vm_3", VM.tag, "running", 7, "USD")


@pytest.mark.parametrize(
    ("machines", "at", "found"),
    [
        ((VM, STRANGER), LATER, []),
        ((VM, ORPHAN), LATER, [("vm_2", OrphanKind.ORPHAN_VM)]),
        ((VM, TWIN), LATER, [("vm_3", OrphanKind.ORPHAN_VM)]),
        ((STRANGER,), LATER, [("vm_1", OrphanKind.MISSING_VM)]),
        # Just requested: the provider's list may be behind.
        ((STRANGER,), NOON + 1, []),
    ],
)
def test_an_audit_names_what_nobody_rents_and_what_is_missing(
    machines: tuple[Machine, ...], at: int, found: list[tuple[str, OrphanKind]]
) -> None:
    orphans = policy.orphans(Inventory(machines, complete=True), [HELD], at=at)
    assert [(orphan.provider_id, orphan.kind) for orphan in orphans] == found


@pytest.mark.parametrize(
    ("inventory", "why"),
    [
        (Inventory((VM,), complete=False), "the provider's list is partial"),
        (Inventory((), complete=True), "the provider lists nothing"),
        (Inventory((STRANGER,), complete=True), ""),
    ],
)
def test_a_partial_or_empty_inventory_proves_nothing(inventory: Inventory, why: str) -> None:
    assert policy.no_conclusion(inventory, [HELD]).startswith(why)


def test_an_orphan_is_recorded_once_and_cleared_once() -> None:
    log, aggregator, run = onboarded()
    for machines in ((ORPHAN,), (ORPHAN,), (STRANGER,), (STRANGER,)):
        inventory = Inventory(machines, complete=True)
        run(lambda inventory=inventory: aggregator.audit("src_1", inventory, at=LATER))
    topics = [event.topic.rpartition(".")[2] for event in log.events]
    assert topics == ["onboarded", "orphan_found", "orphan_cleared"]


@pytest.mark.parametrize(
    ("attempts", "retry_after", "seconds"),
    [(0, 0, 0), (3, 0, 4), (99, 0, 8), (0, 7, 7), (0, 10**9, 300)],
)
def test_backoff_is_bounded(attempts: int, retry_after: int, seconds: int) -> None:
    assert policy.backoff_seconds(attempts, retry_after) == seconds


STEPS = st.sampled_from(["request", "created", "failed", "terminate", "gone", "audit"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 2)), max_size=40))
def test_any_history_replays_to_the_same_bytes(history: list[tuple[str, int]]) -> None:
    log, aggregator, run = onboarded()
    for step, number in history:
        try:
            run(lambda step=step, number=number: act(aggregator, step, f"ins_{number}"))
        except (NotFound, Refused):
            continue
    rebuilt = Aggregator(log)
    rebuilt.catch_up()
    assert rebuilt.state() == aggregator.state()
    for event in log.events:
        noun, verb = event.topic.split(".")[1:]
        name = noun.title() + "".join(word.title() for word in verb.split("_"))
        json_format.Parse(event.data, getattr(source_events_pb2, name)())


def onboarded() -> tuple[MemoryLog, Aggregator, Direct]:
    log = MemoryLog()
    aggregator = Aggregator(log)
    run = Direct(aggregator, log)
    run(lambda: aggregator.onboard("src_1", "sim", "simulated", ENDPOINT, at=NOON))
    return log, aggregator, run


def act(aggregator: Aggregator, step: str, instance_id: str) -> None:
    if step == "request" and aggregator.find(Instance, instance_id) is None:
        aggregator.request_instance(instance_id, "src_1", "h100x8", at=NOON)
    elif step == "created":
        aggregator.created(instance_id, VM, found_by_tag=False, at=NOON)
    elif step == "failed":
        aggregator.failed(instance_id, "sold out", at=NOON)
    elif step == "terminate":
        aggregator.terminate(instance_id, "REQUESTED", at=NOON)
    elif step == "gone":
        aggregator.gone(instance_id, at=NOON)
    elif step == "audit":
        aggregator.audit("src_1", Inventory((ORPHAN, TWIN), complete=True), at=LATER)
