"""How fast each address, tenant and client may ask; the rule itself is ``policy.passage``.

Kept in memory: a restart forgives, and with several gateways each allows its own share. Only
keys that are still being slowed down are remembered.
"""

from collections.abc import Callable

from chassis.errors import Overloaded
from gateway.http.problems import RETRY_AFTER
from gateway.policy import SECOND, Rate, passage

KEYS_MAX = 100_000


class Rates:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._due: dict[str, int] = {}

    def pass_or_wait(self, rate: Rate, key: str) -> None:
        """Lets one request of ``key`` pass, or raises Overloaded with the time to wait."""
        at = self._now()
        due, wait = passage(rate, self._due.get(key, 0), at)
        if wait:
            seconds = -(-wait // SECOND)
            raise Overloaded(
                "too many requests; try again later",
                code="RATE_LIMITED",
                **{RETRY_AFTER: str(seconds)},
            )
        self._due[key] = due
        if len(self._due) > KEYS_MAX:
            self._forget(at)

    def _forget(self, at: int) -> None:
        self._due = {key: due for key, due in self._due.items() if due > at}
        if len(self._due) > KEYS_MAX:
            latest = sorted(self._due, key=self._due.__getitem__)[KEYS_MAX // 2 :]
            self._due = {key: self._due[key] for key in latest}
