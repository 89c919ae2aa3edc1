"""Guards: when a step is taken, when it is lifted, and what is not believed."""

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from chassis.memory import Direct, MemoryLog
from enforcement import policy
from enforcement.application import Enforcement
from enforcement.policy import Sample, Streak
from leasehold.enforcement.v1 import guard_events_pb2

NOON = 1_767_268_800_000_000
TOTAL = 1000


# One row per rule, in the order the policy applies them.
@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        (Sample(1, 0, "u", 9, 0, 900), "seq 1 is not after 1"),
        (Sample(2, 0, "u", -1, TOTAL, 900), "the driver does not tell memory"),
        (Sample(2, 0, "u", TOTAL + 1, TOTAL, 900), "1001 of 1000 bytes in use"),
        (Sample(2, 0, "u", 5, TOTAL, 101), "utilisation is 101 %"),
        (Sample(2, 0, "u", 5, TOTAL, 100), None),
    ],
)
def test_a_reading_that_cannot_be_true_is_flagged(sample: Sample, problem: str | None) -> None:
    assert policy.flaw(sample, 1) == problem


def test_pressure_takes_one_step_and_recovery_lifts_it() -> None:
    log, enforcement, run = watched()
    report(enforcement, run, [950, 950])
    assert steps(log) == []
    report(enforcement, run, [950, 950, 950])
    assert steps(log) == ["pressure_detected", "step_taken"]
    report(enforcement, run, [700, 700, 700, 700])
    assert steps(log) == ["pressure_detected", "step_taken", "recovered"]


def test_a_dip_begins_the_count_anew() -> None:
    log, enforcement, run = watched()
    report(enforcement, run, [950, 950, 900, 950, 950])
    assert steps(log) == []


def test_one_gpu_under_pressure_is_enough_and_all_must_recover() -> None:
    log, enforcement, run = watched()
    for _ in range(3):
        report(enforcement, run, [950], slot=0)
        report(enforcement, run, [100], slot=1)
    assert steps(log) == ["pressure_detected", "step_taken"]
    report(enforcement, run, [100, 100, 100], slot=1)
    assert steps(log)[-1] == "step_taken"
    report(enforcement, run, [100, 100, 100], slot=0)
    assert steps(log)[-1] == "recovered"


def test_a_repeated_reading_counts_once() -> None:
    log, enforcement, run = watched()
    same = [Sample(7, 0, "u", 990, TOTAL, 1)] * 5
    flagged = run(lambda: enforcement.report("nod_1", "boot", same, at=NOON))
    assert len(flagged) == 4
    assert steps(log) == []


def test_another_node_cannot_press_this_lease() -> None:
    log, enforcement, run = watched()
    samples = [Sample(n, 0, "u", 990, TOTAL, 1) for n in range(1, 9)]
    run(lambda: enforcement.report("nod_2", "boot", samples, at=NOON))
    assert steps(log) == []


def test_after_the_lease_nothing_is_watched() -> None:
    log, enforcement, run = watched()
    run(lambda: enforcement.lower_guard("lse_1", at=NOON))
    run(lambda: enforcement.lower_guard("lse_1", at=NOON))
    report(enforcement, run, [990] * 5)
    assert steps(log) == ["lowered"]
    assert enforcement.guards() == []


def test_every_event_parses_as_its_message() -> None:
    log, enforcement, run = watched()
    report(enforcement, run, [950] * 3 + [100] * 3)
    run(lambda: enforcement.lower_guard("lse_1", at=NOON))
    seen = set()
    for event in log.events:
        noun, verb = event.topic.split(".")[1:]
        name = noun.title() + "".join(word.title() for word in verb.split("_"))
        json_format.Parse(event.data, getattr(guard_events_pb2, name)())
        seen.add(event.topic)
    assert seen == enforcement.codec.topics


@given(st.lists(st.tuples(st.sampled_from([100, 850, 950]), st.integers(0, 1)), max_size=60))
def test_steps_alternate_and_replay_gives_the_same_bytes(readings: list[tuple[int, int]]) -> None:
    log, enforcement, run = watched()
    for used, slot in readings:
        report(enforcement, run, [used], slot=slot)
    taken = [step for step in steps(log) if step != "pressure_detected"]
    assert all(step == ("step_taken", "recovered")[n % 2] for n, step in enumerate(taken))
    rebuilt = Enforcement(log)
    rebuilt.catch_up()
    assert rebuilt.state() == enforcement.state()


def test_a_streak_is_bounded() -> None:
    streak = Streak()
    for seq in range(1, 100):
        streak = streak.after(Sample(seq, 0, "u", 990, TOTAL, 1))
    assert streak == Streak(over=policy.WINDOW_SAMPLES)


def watched() -> tuple[MemoryLog, Enforcement, Direct]:
    log = MemoryLog()
    enforcement = Enforcement(log)
    run = Direct(enforcement, log)
    run(
        lambda: enforcement.raise_guard(
            "lse_1",
            tenant_id="ten_1",
            correlation_id="wl_1",
            node_id="nod_1",
            workload_id="wl_1",
            slots=[0, 1],
            at=NOON,
        )
    )
    return log, enforcement, run


def report(enforcement: Enforcement, run: Direct, used: list[int], slot: int = 0) -> None:
    last = enforcement._seq_last.get(("nod_1", "boot", slot), 0)
    samples = [Sample(last + n, slot, "u", one, TOTAL, 50) for n, one in enumerate(used, 1)]
    run(lambda: enforcement.report("nod_1", "boot", samples, at=NOON))


def steps(log: MemoryLog) -> list[str]:
    return [event.topic.rpartition(".")[2] for event in log.events[1:]]
