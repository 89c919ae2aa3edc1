"""Rebuilding from the log: the same bytes, whatever happened and whatever the rules say now."""

import pytest
from google.protobuf import json_format

from admission import intents, policy
from admission.application import Admission
from admission.domain import Envelope, Workload
from admission.holds import Keeper
from admission.intents import Problem
from admission.policy import Denial, PendingReason
from leasehold.admission.v1 import envelope_events_pb2, workload_events_pb2
from tests.admission.stage import ACME, Stage, denied


def test_a_rebuild_and_a_snapshot_give_the_live_bytes() -> None:
    stage = full_history()
    restored = Admission(stage.log)
    restored.load(stage.admission.snapshot())
    assert stage.rebuilt().state() == stage.admission.state() == restored.state()


def test_history_survives_a_tighter_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = full_history()
    before = stage.admission.state()
    nothing = Denial(PendingReason.ENVELOPE, "nothing is allowed any more")
    monkeypatch.setattr(policy, "denial", lambda *_: nothing)
    monkeypatch.setattr(policy, "may", lambda *_: False)
    monkeypatch.setattr(policy, "submission_problem", lambda *_: Problem("NO", "no"))
    monkeypatch.setattr(intents, "intent_problem", lambda *_: Problem("NO", "no"))
    assert stage.rebuilt().state() == before


def test_every_event_parses_as_its_message() -> None:
    stage = full_history()
    messages = {**vars(envelope_events_pb2), **vars(workload_events_pb2)}
    seen = set()
    for event in stage.log.events:
        noun, verb = event.topic.removeprefix("admission.").split(".")
        name = noun.title() + verb.title().replace("_", "")
        message = json_format.Parse(event.data, messages[name](), ignore_unknown_fields=False)
        assert (message.meta.topic, message.meta.aggregate_id) == (event.topic, event.aggregate_id)
        assert message.meta.version == event.version
        seen.add(event.topic)
    assert seen == stage.admission.codec.topics


def test_what_follows_from_an_intent_carries_its_correlation() -> None:
    stage = full_history()
    workloads = [event for event in stage.log.events if event.topic.startswith(Workload.TOPIC)]
    assert all(event.correlation_id == event.aggregate_id for event in workloads)
    assert {event.tenant_id for event in stage.log.events} == {ACME}


def full_history() -> Stage:
    """Every kind of event at least once."""
    stage = Stage(ACME)
    admission = stage.admission
    stage.run(lambda at: admission.suspend(ACME, "unpaid", at=at))
    stage.run(lambda at: admission.resume(ACME, at=at))
    stage.run(lambda at: admission.set_envelope(ACME, {"H100": 4}, "premium", ["big"], at=at))
    first = stage.submit(gpu_count=2, environment={"A": "é\u2028"})
    (candidate,) = stage.choose()
    budget = Denial(PendingReason.BUDGET, "0.41 USD needed, 0.00 available")
    stage.settle(denied(candidate, budget, Keeper.PLACEMENT))
    stage.admit_all()
    stage.run(lambda at: admission.lose_lease("lse_1_2", "CAPACITY", at=at))
    stage.admit_all()
    stage.run(lambda at: admission.start("lse_1_3", at, at=at))
    second = stage.submit(gpu_count=4)
    stage.choose()
    stage.run(lambda at: admission.stop(first, ACME, at=at))
    stage.end(first, "STOPPED", -15)
    stage.run(lambda at: admission.stop(second, ACME, at=at))
    stage.submit()
    assert admission.find(Envelope, "env_ten_acme")
    return stage
