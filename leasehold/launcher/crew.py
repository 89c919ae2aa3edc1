"""All processes of the platform by name, each with its supervisor."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from leasehold.launcher.state import CannotStart
from leasehold.launcher.supervisor import Program, Supervisor

READY_SECONDS = 60
_POLL_SECONDS = 0.05

# Called with the name of a process and the news about it.
Progress = Callable[[str, str], None]


def silent(name: str, news: str) -> None:
    """For those who do not watch."""


class Crew:
    def __init__(self) -> None:
        self._supervisors: dict[str, Supervisor] = {}

    @property
    def names(self) -> list[str]:
        """In the order in which they were started."""
        return list(self._supervisors)

    def pids(self) -> dict[str, int]:
        return {name: keeper.pid for name, keeper in self._supervisors.items() if keeper.pid}

    def start(self, programs: Mapping[str, Program]) -> None:
        """Start them at once; the first failure is raised when all have been tried."""
        keepers = {name: Supervisor(program) for name, program in programs.items()}
        self._supervisors.update(keepers)
        _together([keeper.start for keeper in keepers.values()])

    def stop(self, names: Iterable[str], progress: Progress = silent) -> None:
        """Stop them at once, those that are there."""
        keepers = {name: self._supervisors.pop(name) for name in names if name in self._supervisors}
        _together([keeper.stop for keeper in keepers.values()])
        for name in keepers:
            progress(name, "stopped")

    def kill(self, name: str) -> None:
        """SIGKILL one process; its supervisor starts it again."""
        self._supervisors[name].kill()

    def hold_down(self, name: str) -> None:
        """SIGKILL one process; it stays down until released."""
        self._supervisors[name].hold_down()

    def release(self, name: str) -> None:
        self._supervisors[name].release()

    def is_ready(self, name: str) -> bool:
        return self._supervisors[name].is_ready()

    def program(self, name: str) -> Program:
        return self._supervisors[name].program

    def restarts(self, name: str) -> int:
        return self._supervisors[name].restarts

    def wait_ready(
        self, names: Iterable[str], seconds: float = READY_SECONDS, progress: Progress = silent
    ) -> None:
        waiting = list(names)
        deadline = time.monotonic() + seconds
        while waiting:
            for name in list(filter(self.is_ready, waiting)):
                waiting.remove(name)
                progress(name, "ready")
            for name in waiting:
                if failure := self._supervisors[name].failure():
                    raise CannotStart(failure)
            if waiting and time.monotonic() > deadline:
                log = self._supervisors[waiting[0]].program.log
                raise CannotStart(
                    f"{', '.join(waiting)} not ready within {seconds:.0f} seconds (log: {log})"
                )
            time.sleep(_POLL_SECONDS)


def _together(acts: list[Callable[[], None]]) -> None:
    if acts:
        with ThreadPoolExecutor(max_workers=len(acts)) as pool:
            for done in [pool.submit(act) for act in acts]:
                done.result()
