"""A problem that a rule found, as the error that a command fails with."""

from admission.intents import Problem
from chassis.errors import Invalid, Refused


def invalid(problem: Problem) -> Invalid:
    return Invalid(problem.message, code=problem.code, **_details(problem))


def refused(problem: Problem) -> Refused:
    return Refused(problem.message, code=problem.code, **_details(problem))


def _details(problem: Problem) -> dict[str, str]:
    field = {"field": problem.field} if problem.field else {}
    return field | {name: str(number) for name, number in problem.numbers.items()}
