"""What an agent makes of its folder after a kill between any two of its steps. No network."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chassis.clock import SECOND
from node_agent.agent import Agent
from node_agent.gpus import Gpu
from node_agent.policy import Assignment, Desired, JobState, Program, Run
from node_agent.uptime import uptime_us
from tests.waiting import wait_for

GPUS = [Gpu(index, f"GPU-{index}", "H100", "H100", 1, "") for index in range(2)]
LEASE = "lse_1"


def test_a_lease_that_was_only_accepted_is_started(agent: Agent, tmp_path: Path) -> None:
    agent.journal.accept(LEASE, 1, (0, 1))
    after = Agent(tmp_path, GPUS)
    after.obey([assigned("echo $CUDA_VISIBLE_DEVICES")], [])
    assert ended(after).exit_code == 0
    assert after.output() == [(LEASE, 0, b"GPU-0,GPU-1\n")]


def test_a_lease_that_was_only_accepted_is_forgotten_when_it_is_gone(
    agent: Agent, tmp_path: Path
) -> None:
    agent.journal.accept(LEASE, 1, (0, 1))
    after = Agent(tmp_path, GPUS)
    after.obey([], [])
    assert after.journal.leases == {}
    assert after.journal.fences == {0: 1, 1: 1}


def test_a_lease_that_was_only_prepared_is_started_or_given_up(
    agent: Agent, tmp_path: Path
) -> None:
    prepare(agent, "true")
    after = Agent(tmp_path, GPUS)
    assert [run.state for run in after.jobs.runs()] == [JobState.PREPARED]
    after.obey([assigned("true")], [])
    assert ended(after).cause == ""


def test_a_prepared_lease_that_is_gone_ends_without_a_start(agent: Agent, tmp_path: Path) -> None:
    prepare(agent, "touch ran")
    after = Agent(tmp_path, GPUS)
    after.obey([], [])
    (run,) = after.open_runs()
    assert (run.state, run.cause, run.run_us) == (JobState.EXITED, "STOPPED", 0)
    assert not (tmp_path / "jobs" / LEASE / "work").exists()


def test_a_lease_is_forgotten_only_when_all_of_it_is_known_elsewhere(agent: Agent) -> None:
    agent.obey([assigned("echo hello")], [])
    run = ended(agent)
    agent.obey([], [LEASE])
    assert agent.open_runs() == []  # its end is known
    assert agent.journal.leases[LEASE].settled
    pending = agent.pending_slices()
    assert [(each.seq, each.from_us, each.until_us) for _, each in pending] == [(1, 0, run.run_us)]
    agent.slices_answered(pending)
    agent.obey([], [])
    assert agent.jobs.runs() == [run]  # its output is not
    agent.continue_output(LEASE, len(b"hello\n"))
    agent.obey([], [])
    assert agent.jobs.runs() == []
    assert agent.journal.leases == {}


def test_a_slice_that_may_have_been_sent_comes_back_the_same(agent: Agent, tmp_path: Path) -> None:
    agent.obey([assigned("sleep 60")], [])
    wait_for(lambda: agent.pending_slices(), what="a slice after a second")
    sent = agent.pending_slices()[0][1]
    after = Agent(tmp_path, GPUS, slice_seconds=1)
    assert after.pending_slices()[0][1] == sent
    after.stop_all("NODE_STOPPED", 0)
    run = ended(after)
    assert after.pending_slices()[0][1] == sent
    after.slices_answered(after.pending_slices())
    ((_, rest),) = after.pending_slices()
    assert (rest.seq, rest.from_us, rest.until_us) == (2, sent.until_us, run.run_us)


def test_one_order_that_fails_does_not_hold_up_the_others(agent: Agent, tmp_path: Path) -> None:
    blocked = replace(assigned("true"), lease_id="lse_2", slots=(1,))
    (tmp_path / "jobs" / ".lse_2").write_text("where the folder would be prepared")
    agent.obey([blocked, replace(assigned("true"), slots=(0,))], [])
    assert ended(agent).lease_id == LEASE
    (tmp_path / "jobs" / ".lse_2").unlink()
    agent.obey([blocked], [])
    wait_for(lambda: len(agent.open_runs()) == 2, what="it is started at the next order")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path, GPUS, slice_seconds=1)
    yield agent
    agent.stop_all("NODE_STOPPED", 0)
    agent.journal.close()


def assigned(script: str) -> Assignment:
    desired = Desired(uptime_us() + 600 * SECOND)
    return Assignment(LEASE, 1, (0, 1), desired, Program(("sh", "-c", script), {}, 0))


def prepare(agent: Agent, script: str) -> None:
    """As far as a start gets before the supervisor is spawned."""
    lease = assigned(script)
    agent.journal.accept(LEASE, lease.fencing_token, lease.slots)
    agent.jobs.prepare(LEASE, agent._spec(lease), lease.desired)


def ended(agent: Agent) -> Run:
    def run() -> Run | None:
        runs = [each for each in agent.jobs.runs() if each.lease_id == LEASE]
        return runs[0] if runs and runs[0].state is JobState.EXITED else None

    found = wait_for(run, what="the job ends")
    assert found is not None
    return found
