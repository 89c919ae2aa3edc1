"""Every operation under generated requests, good and bad: answers are as described, never 500."""

import itertools
from collections.abc import Iterator
from contextlib import suppress

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gateway.policy import SECOND
from tests.gateway.rig import Rig

CHECKS = [
    schemathesis.checks.not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = 2


def test_generated_requests_are_answered_as_described(rig: Rig) -> None:
    schema = schemathesis.openapi.from_dict(rig.client().get("/openapi.json").json())
    clients = itertools.cycle([rig.tenant()[1], rig.staff()])
    walked = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in schemathesis.GenerationMode:
            # Nothing can be wrong about a request that takes no parameter.
            with suppress(Unsatisfiable):
                walk(rig, operation.as_strategy(generation_mode=mode), clients)
        walked += 1
    assert walked == len(schema)


def walk(rig: Rig, cases: object, clients: Iterator[httpx.Client]) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def answered(case: schemathesis.Case) -> None:
        rig.ticks += SECOND
        headers = {"Authorization": next(clients).headers["authorization"]}
        case.call_and_validate(base_url=rig.url, headers=headers, checks=CHECKS, timeout=10)

    answered()
