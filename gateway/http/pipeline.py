"""What every request passes before its operation: who, may they, how fast, what do they say.

The order matters: a caller without permission learns nothing from the way its body is parsed.
Whatever goes wrong leaves as a problem document; anything unexpected leaves as an incident, and
its stack stays in the log.
"""

import logging
import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from chassis.errors import Denied, NotFound, ServiceError
from gateway.http import bodies, incoming
from gateway.http.calls import Services
from gateway.http.operations import Ask, Operation
from gateway.http.problems import Incident, problem
from gateway.http.queries import ID_PATTERN
from gateway.http.rates import Rates
from gateway.http.sessions import Person, Sessions
from gateway.policy import TENANT_RATE

log = logging.getLogger(__name__)


class Pipeline:
    def __init__(
        self, services: Services, sessions: Sessions, rates: Rates, now: Callable[[], int]
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._rates = rates
        self._now = now

    def endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            request.state.route = operation.path
            try:
                return await operation.handle(await self._checked(operation, request))
            except ServiceError as error:
                return problem(error, request.state.request_id)
            except Exception:
                log.exception("incident", extra={"request_id": request.state.request_id})
                return problem(Incident("an error of ours"), request.state.request_id)

        return answer

    async def _checked(self, operation: Operation, request: Request) -> Ask:
        if operation.rate is not None:
            self._rates.pass_or_wait(operation.rate, f"{operation.name} {request.state.address}")
        person = self._person(operation, request) if operation.needs_token else None
        for value in request.path_params.values():
            if not re.fullmatch(ID_PATTERN, value, re.ASCII):
                raise NotFound("there is no such thing")
        query = incoming.query(request.query_params.multi_items(), operation.query)
        key = incoming.idempotency_key(request.headers) if operation.is_command else ""
        body = None
        if operation.body is not None:
            document = await incoming.document(request, operation.body.media)
            body = bodies.read(operation.body, document)
        return Ask(
            services=self._services,
            person=person,
            request_id=request.state.request_id,
            address=request.state.address,
            path=request.path_params,
            query=query,
            request=request,
            body=body,
            key=key,
        )

    def _person(self, operation: Operation, request: Request) -> Person:
        person = self._sessions.person(incoming.bearer(request.headers), self._now())
        self._rates.pass_or_wait(TENANT_RATE, person.tenant_id or person.actor)
        if person.role not in operation.roles:
            log.warning(
                "request denied",
                extra={"route": operation.path, "actor": person.actor, "role": person.role},
            )
            raise Denied(f"{person.role} may not {operation.method} {operation.path}")
        return person
