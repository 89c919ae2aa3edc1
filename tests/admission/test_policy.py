"""The rules of admission as tables, in the order they are applied."""

import pytest

from admission import policy
from admission.intents import Request
from admission.policy import Allowance, PendingReason, State, Step

FULL = Allowance({"H100": 8}, held={"H100": 8})
CUT = Allowance({"H100": 2}, held={"H100": 6})
FREE = Allowance({"H100": 8, "L4": 0}, frozenset({"reserved"}), held={"H100": 3})
SUSPENDED = Allowance({"H100": 8}, suspended=True, held={"H100": 8})


# One row per rule, in the order the policy applies them.
@pytest.mark.parametrize(
    ("request_", "allowance", "reason", "detail"),
    [
        # Breaks every rule: the most fundamental is told.
        (Request("H100", 9, 60, ("x",)), SUSPENDED, "NEVER_FITS", "9 H100 asked, the quota is 8"),
        (Request("H100", 3, 60), CUT, "NEVER_FITS", "at most 2 H100 fit"),
        (Request("H100", 8, 60), SUSPENDED, "ENVELOPE", "suspended"),
        (Request("A100", 1, 60), FREE, "ENVELOPE", "no quota for A100"),
        (Request("L4", 1, 60), FREE, "ENVELOPE", "no quota for L4"),
        (Request("H100", 8, 60, ("x",)), FREE, "ENVELOPE", "trait 'x' is not granted"),
        (Request("H100", 6, 60), FREE, "QUOTA", "6 H100 asked, 3 of 8 H100 are in use"),
        (Request("H100", 1, 60), FULL, "QUOTA", "8 of 8"),
        (Request("H100", 1, 60), CUT, "QUOTA", "6 of 2"),
    ],
)
def test_a_denial_names_the_first_rule_that_is_broken(
    request_: Request, allowance: Allowance, reason: str, detail: str
) -> None:
    denial = policy.denial(request_, allowance)
    assert denial
    assert denial.reason == reason
    assert detail in denial.detail


@pytest.mark.parametrize(
    "request_", [Request("H100", 5, 60), Request("H100", 1, 60, ("reserved",))]
)
def test_exactly_full_is_allowed(request_: Request) -> None:
    assert policy.denial(request_, FREE) is None


@pytest.mark.parametrize(
    ("request_", "allowance", "code"),
    [
        (Request("H100", 9, 60, ("x",)), SUSPENDED, "UNGRANTED_TRAIT"),
        (Request("H100", 9, 60), SUSPENDED, "TENANT_SUSPENDED"),
        (Request("A100", 1, 60), FREE, "NOT_ENTITLED"),
        (Request("H100", 9, 60), FREE, "NEVER_FITS"),
    ],
)
def test_what_can_never_run_is_refused_at_submission(
    request_: Request, allowance: Allowance, code: str
) -> None:
    problem = policy.submission_problem(request_, allowance)
    assert problem
    assert problem.code == code


def test_a_refusal_for_size_names_the_numbers_and_the_nearest_that_fits() -> None:
    problem = policy.submission_problem(Request("H100", 16, 60), FREE)
    assert problem
    assert problem.numbers == {"requested": 16, "quota": 8, "nearest": 8}
    assert policy.submission_problem(Request("H100", problem.numbers["nearest"], 60), FREE) is None


def test_a_full_quota_is_no_reason_to_refuse_a_submission() -> None:
    assert policy.submission_problem(Request("H100", 8, 60), FULL) is None


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        (State.QUEUED, {Step.DEFER, Step.ADMIT, Step.REQUEUE, Step.STOP}),
        (State.ADMITTED, {Step.REQUEUE, Step.START, Step.STOP, Step.END}),
        (State.RUNNING, {Step.STOP, Step.END}),
        (State.STOPPING, {Step.REQUEUE, Step.START, Step.END}),
        (State.SUCCEEDED, set()),
        (State.FAILED, set()),
        (State.STOPPED, set()),
    ],
)
def test_each_state_allows_its_steps_and_no_others(state: State, steps: set[Step]) -> None:
    assert {step for step in Step if policy.may(state, step)} == steps


@pytest.mark.parametrize(
    ("cause", "exit_code", "outcome"),
    [
        ("EXITED", 0, State.SUCCEEDED),
        ("EXITED", 1, State.FAILED),
        ("EXITED", -9, State.FAILED),
        ("STOPPED", 0, State.STOPPED),
        ("STOPPED", -15, State.STOPPED),
        ("LIMIT", 0, State.STOPPED),
        ("BALANCE", -15, State.STOPPED),
        ("EXPIRED", 0, State.FAILED),
        ("NODE_LOST", 0, State.FAILED),
        ("START_FAILED", 0, State.FAILED),
        ("SOMETHING_NEW", 0, State.FAILED),
    ],
)
def test_the_end_of_a_lease_is_an_outcome(cause: str, exit_code: int, outcome: State) -> None:
    assert policy.outcome(cause, exit_code) is outcome


def test_lease_ids_are_derived_and_lead_back() -> None:
    assert policy.lease_id("wl_01j8", 2) == "lse_01j8_2"
    assert policy.workload_id("lse_01j8_2") == "wl_01j8"
    assert policy.workload_id(policy.lease_id("wl_a_b", 12)) == "wl_a_b"


@pytest.mark.parametrize(
    ("later", "extends"),
    [
        (Request("H100", 2, 60), True),
        (Request("H100", 3, 90), True),
        (Request("H100", 1, 60), False),
        (Request("H100", 2, 59), False),
        (Request("A100", 2, 60), False),
    ],
)
def test_only_what_asks_for_no_less_may_be_asked_for_behind(later: Request, extends: bool) -> None:
    assert policy.extends(Request("H100", 2, 60), later) is extends


@pytest.mark.parametrize("reason", PendingReason)
def test_every_reason_has_a_remedy(reason: PendingReason) -> None:
    remedies = policy.remedies(reason, Request("H100", 6, 60), FREE)
    assert remedies
    assert all(remedies)


def test_a_full_quota_suggests_what_would_fit_now() -> None:
    remedies = policy.remedies(PendingReason.QUOTA, Request("H100", 6, 60), FREE)
    assert "with 5 H100 it would be within the quota now" in remedies
    remedies = policy.remedies(PendingReason.QUOTA, Request("H100", 6, 60), FULL)
    assert not any(remedy.startswith("with") for remedy in remedies)


@pytest.mark.parametrize(
    ("gpu_quota", "tier", "traits", "code"),
    [
        ({"H 100": 1}, "", ["a", "a"], "QUOTA"),
        ({"H100": -1}, "standard", [], "QUOTA"),
        ({"H100": 1_000_001}, "standard", [], "QUOTA"),
        ({"H100": 8}, "", ["a", "a"], "TIER"),
        ({"H100": 8}, "standard", ["a", "a"], "TRAITS"),
        ({"H100": 8}, "standard", ["A"], "TRAITS"),
    ],
)
def test_an_envelope_that_makes_no_sense_is_refused(
    gpu_quota: dict[str, int], tier: str, traits: list[str], code: str
) -> None:
    problem = policy.envelope_problem(gpu_quota, tier, traits)
    assert problem
    assert problem.code == code
    assert policy.envelope_problem({"H100": 0}, "standard", ["reserved"]) is None
