"""Random histories of a small fleet, checked from the log alone and not from the views.

Whatever nodes, tenants and the clock do: no slot is ever in two holds or leases, the free counts
are what a recount gives, fencing tokens rise, intervals on a slot do not overlap, every event
parses as its message, and a rebuild gives the same bytes and the same next decision.
"""

from collections import defaultdict
from typing import Any

import hypothesis.strategies as st
from google.protobuf import json_format
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from chassis.errors import Denied
from leasehold.placement.v1 import lease_events_pb2, node_events_pb2
from placement.application import Placement
from placement.policy import EndCause, RunState, RunStatus
from tests.placement.fleet import SECOND, Fleet, evidence, gpu, request

NODES = st.sampled_from(["nod_a", "nod_b", "nod_c"])
LEASES = st.integers(0, 11).map(lambda number: f"lse_{number}_1")


class FleetHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet("nod_a", gpus=4)
        self.tokens = 0

    @rule(node_id=NODES, gpus=st.integers(1, 4), first=st.integers(0, 5), boot=st.integers(1, 2))
    def join(self, node_id: str, gpus: int, first: int, boot: int) -> None:
        """Uuids come from one small set, so that nodes clash and change their GPUs."""
        self.tokens += 1
        token = f"token-{self.tokens}"
        self.fleet.invite(node_id, token)
        shown = tuple(gpu(index, f"GPU-{first + index}") for index in range(gpus))
        self.fleet.show(token, evidence(node_id, gpus=shown, boot_id=f"boot-{boot}"))

    @rule(token=st.integers(0, 9), key=st.sampled_from(["key-nod_a", "stolen"]))
    def join_again(self, token: int, key: str) -> None:
        try:
            self.fleet.show(f"token-{token}", evidence("nod_a", key_sha256=key))
        except Denied:
            return

    @rule(leases=st.lists(LEASES, unique=True, max_size=3), count=st.integers(1, 4))
    def hold(self, leases: list[str], count: int) -> None:
        new = [lease for lease in leases if self.fleet.topics(lease) == []]
        self.fleet.hold_all(*(request(lease, count) for lease in new))

    @rule(lease=LEASES)
    def release(self, lease: str) -> None:
        self.fleet.do(lambda at: self.fleet.placement.release_holds([lease], at=at))

    @rule(lease=LEASES, count=st.integers(1, 3), command=st.sampled_from([["true"], []]))
    def bind(self, lease: str, count: int, command: list[str]) -> None:
        self.fleet.bind(lease, count, command=command)

    @rule(
        lease=LEASES,
        node_id=NODES,
        honest=st.integers(0, 3),
        state=st.sampled_from(RunState),
        run_us=st.integers(0, 900 * SECOND),
    )
    def report(self, lease: str, node_id: str, honest: int, state: RunState, run_us: int) -> None:
        placement, token = self.fleet.placement, 1
        if honest and self.fleet.topics(lease):
            known = self.fleet.status(lease)
            node_id, token = known["node_id"], known["fencing_token"]
        if placement.nodes.statuses.get(node_id, "invited") == "invited":
            return
        self.fleet.sync(node_id, RunStatus(lease, token, state, run_us))

    @rule(lease=LEASES, cause=st.sampled_from([EndCause.STOPPED, EndCause.BALANCE]))
    def drain(self, lease: str, cause: EndCause) -> None:
        self.fleet.do(lambda at: self.fleet.placement.drain(lease, cause, at=at))

    @rule(lease=LEASES, step=st.sampled_from(["throttle", ""]))
    def constrain(self, lease: str, step: str) -> None:
        self.fleet.do(lambda at: self.fleet.placement.constrain(lease, step, "TEST", at=at))

    @rule(seconds=st.sampled_from([1, 20, 50, 400, 700]))
    def let_time_pass(self, seconds: int) -> None:
        self.fleet.wait(seconds * SECOND)
        self.fleet.tick()

    @invariant()
    def no_slot_is_in_two_places(self) -> None:
        ledger = replayed(self.fleet)
        for node_id, models in ledger.gpus.items():
            busy = {slot for slot, lease in ledger.slots[node_id].items() if lease}
            ready = ledger.ready[node_id]
            free = len(models - busy) if ready else 0
            assert self.fleet.placement.slots.free_count(node_id) == free

    def teardown(self) -> None:
        fleet = self.fleet
        tokens = [bound["fencing_token"] for bound in fleet.facts("lease.bound")]
        assert tokens == sorted(set(tokens))
        intervals_do_not_overlap(fleet)
        events_parse(fleet)
        rebuild_is_the_same(fleet)


FleetHistory.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestFleetHistory = FleetHistory.TestCase


def test_every_event_parses_as_its_message() -> None:
    """One history in which everything happens."""
    fleet = Fleet("nod_a", "nod_b")
    fleet.sync("nod_a", boot_id="boot-2")
    for number in range(3):
        fleet.lease(f"lse_{number}_1")
        fleet.report(f"lse_{number}_1", RunState.RUNNING, SECOND)
    fleet.do(lambda at: fleet.placement.constrain("lse_0_1", "throttle", "TEST", at=at))
    fleet.do(lambda at: fleet.placement.drain("lse_0_1", EndCause.STOPPED, at=at))
    fleet.wait(400 * SECOND)
    fleet.report("lse_1_1", RunState.RUNNING, 400 * SECOND)
    fleet.report("lse_1_1", RunState.EXITED, 401 * SECOND)
    fleet.hold("lse_8_1")
    fleet.do(lambda at: fleet.placement.release_holds(["lse_8_1"], at=at))
    fleet.bind("lse_9_1", 9)
    fleet.invite("nod_c", "token")
    fleet.show("token", evidence("nod_c", gpus=(gpu(0, "GPU-nod_b-0"),)))
    fleet.join("nod_b")
    assert events_parse(fleet) == fleet.placement.codec.topics
    rebuild_is_the_same(fleet)


class Ledger:
    """Who has which slot, worked out from the log by other means than the service's."""

    def __init__(self) -> None:
        self.gpus: dict[str, set[int]] = {}
        self.ready: dict[str, bool] = {}
        self.slots: dict[str, dict[int, str]] = defaultdict(dict)
        self.places: dict[str, tuple[str, list[int]]] = {}

    def take(self, lease_id: str, facts: dict[str, Any]) -> None:
        node_id, slots = facts["node_id"], facts["slots"]
        for slot in slots:
            assert slot in self.gpus[node_id], f"{node_id} has no slot {slot}"
            other = self.slots[node_id].get(slot, "")
            assert not other, f"slot {slot} of {node_id} is in {other} and in {lease_id}"
            self.slots[node_id][slot] = lease_id
        self.places[lease_id] = (node_id, slots)

    def free(self, lease_id: str) -> None:
        node_id, slots = self.places.pop(lease_id, ("", []))
        for slot in slots:
            self.slots[node_id][slot] = ""


def replayed(fleet: Fleet) -> Ledger:
    ledger = Ledger()
    for topic, facts in fleet.history():
        aggregate_id = facts["meta"]["aggregate_id"]
        match topic.split("."):
            case [_, "lease", "held"]:
                ledger.take(aggregate_id, facts)
            case [_, "lease", "bound"]:
                ledger.free(aggregate_id)
                ledger.take(aggregate_id, facts)
            case [_, "lease", "lapsed" | "bind_refused" | "ended"]:
                ledger.free(aggregate_id)
            case [_, "node", "joined"]:
                ledger.gpus[aggregate_id] = {gpu["index"] for gpu in facts["gpus"]}
                ledger.ready[aggregate_id] = True
            case [_, "node", "quarantined"]:
                ledger.ready[aggregate_id] = False
    return ledger


def intervals_do_not_overlap(fleet: Fleet) -> None:
    places = {
        bound["meta"]["aggregate_id"]: (bound["node_id"], bound["slots"])
        for bound in fleet.facts("lease.bound")
    }
    intervals: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for ended in fleet.facts("lease.ended"):
        if ended["activated_at"]:
            node_id, slots = places[ended["meta"]["aggregate_id"]]
            for slot in slots:
                intervals[node_id, slot].append((ended["activated_at"], ended["ended_at"]))
    for found in intervals.values():
        found.sort()
        for (_, ended_at), (begins_at, _) in zip(found, found[1:], strict=False):
            assert ended_at <= begins_at


def events_parse(fleet: Fleet) -> set[str]:
    seen = set()
    for event in fleet.log.events:
        _, noun, verb = event.topic.split(".")
        messages = lease_events_pb2 if noun == "lease" else node_events_pb2
        name = noun.title() + "".join(word.title() for word in verb.split("_"))
        json_format.Parse(event.data, getattr(messages, name)(), ignore_unknown_fields=False)
        seen.add(event.topic)
    return seen


def rebuild_is_the_same(fleet: Fleet) -> None:
    live, again = fleet.placement, fleet.rebuilt()
    assert again.state() == live.state()
    snapshot = Placement(fleet.log)
    snapshot.load(live.snapshot())
    assert snapshot.state() == live.state()
    # The same next decision: however the fit index came about, it offers the same.
    for count in range(1, 5):
        offers = {app.slots.index.best("H100", count) for app in (again, snapshot)}
        assert len(offers) == 1
    assert snapshot.expiry.due(2**62, 100) == again.expiry.due(2**62, 100)
