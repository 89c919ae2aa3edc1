"""What the clock ends: silent nodes, overdue leases, and what a restart may not make worse."""

from placement import policy
from placement.policy import HoldRefusal, RunState
from placement.presence import Presence
from tests.placement.fleet import MINUTE, SECOND, Fleet

RUNNING, EXITED = RunState.RUNNING, RunState.EXITED


def test_a_lost_node_ends_its_lease_where_it_was_last_heard() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    fleet.wait(MINUTE)
    fleet.report("lse_1_1", RUNNING, MINUTE)
    fleet.wait(11 * MINUTE)
    fleet.tick()
    [ended] = fleet.facts("lease.ended")
    assert ended["cause"] == "NODE_LOST"
    assert ended["ended_at"] - ended["activated_at"] == MINUTE


def test_after_a_restart_a_lost_lease_ends_where_it_was_last_recorded() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    fleet.wait(MINUTE)
    fleet.report("lse_1_1", RUNNING, MINUTE)
    fleet.wait(11 * MINUTE)
    restart(fleet)
    fleet.wait(MINUTE)
    fleet.tick()
    [ended] = fleet.facts("lease.ended")
    assert ended["ended_at"] - ended["activated_at"] == SECOND


def test_after_an_outage_a_node_may_still_tell_how_long_its_lease_ran() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    fleet.wait(20 * MINUTE)
    restart(fleet)
    fleet.tick()
    assert fleet.status("lse_1_1")["status"] == "active"
    fleet.report("lse_1_1", EXITED, 599 * SECOND, exit_code=143, cause="EXPIRED")
    [ended] = fleet.facts("lease.ended")
    assert ended["ended_at"] - ended["activated_at"] == 599 * SECOND


def test_after_an_outage_a_node_that_stays_away_has_lost_its_lease() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    fleet.wait(20 * MINUTE)
    restart(fleet)
    fleet.wait(policy.SILENCE_US)
    fleet.tick()
    [ended] = fleet.facts("lease.ended")
    assert ended["cause"] == "NODE_LOST"
    assert ended["ended_at"] - ended["activated_at"] == SECOND


def test_a_node_that_speaks_and_does_not_mention_an_overdue_lease_has_let_it_expire() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    fleet.wait(11 * MINUTE)
    fleet.sync("nod_a")
    fleet.tick()
    [ended] = fleet.facts("lease.ended")
    assert ended["cause"] == "EXPIRED"


def test_an_expired_lease_waits_a_moment_for_its_nodes_own_report() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.report("lse_1_1", RUNNING, SECOND)
    fleet.wait(600 * SECOND)
    fleet.tick()
    assert fleet.status("lse_1_1")["status"] == "active"
    fleet.report("lse_1_1", EXITED, 599 * SECOND, exit_code=143, cause="EXPIRED")
    [ended] = fleet.facts("lease.ended")
    assert (ended["cause"], ended["clamped"]) == ("EXPIRED", False)


def test_a_lease_that_no_node_ever_started_has_failed_to_start() -> None:
    fleet = Fleet("nod_a")
    fleet.lease("lse_1_1")
    fleet.wait(11 * MINUTE)
    fleet.tick()
    [ended] = fleet.facts("lease.ended")
    assert (ended["cause"], ended["activated_at"]) == ("START_FAILED", 0)


def test_a_silent_node_gets_no_new_leases_until_it_speaks() -> None:
    fleet = Fleet("nod_a")
    fleet.wait(MINUTE)
    fleet.tick()
    assert fleet.hold("lse_1_1").refusal is HoldRefusal.CAPACITY
    fleet.sync("nod_a")
    assert fleet.hold("lse_1_1").refusal is None


def test_nodes_that_do_not_come_back_after_a_restart_fall_silent() -> None:
    fleet = Fleet("nod_a")
    again = fleet.rebuilt()
    again.expect_nodes(at=fleet.at)
    again.tick(at=fleet.at + MINUTE)
    assert again.presence.silent == {"nod_a"}


def test_nothing_is_due_when_nothing_waits() -> None:
    fleet = Fleet()
    assert fleet.placement.next_due_at() is None
    fleet.join("nod_a")
    silent_at = fleet.at + policy.SILENCE_US
    assert fleet.placement.next_due_at() == silent_at
    fleet.wait(20 * SECOND)
    held = fleet.hold("lse_1_1")
    assert fleet.placement.next_due_at() == min(silent_at, held.expires_at)


def restart(fleet: Fleet) -> None:
    """What was not recorded is forgotten."""
    fleet.placement.presence = Presence()
    fleet.placement.expect_nodes(at=fleet.at)
