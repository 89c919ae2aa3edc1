"""A placement service on a log in memory, with nodes that say what the test tells them to."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from chassis import canonical
from chassis.memory import Direct, MemoryLog
from placement.application import Membership, Placement
from placement.policy import Evidence, Gpu, HoldRequest, HoldResult, Orders, RunState, RunStatus

T = TypeVar("T")

NOON = 1_767_268_800_000_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
TENANT = "ten_acme"


class Fleet:
    """Time stands still but for a microsecond per command, until ``wait``."""

    def __init__(self, *nodes: str, gpus: int = 8, model: str = "H100") -> None:
        self.log = MemoryLog()
        self.placement = Placement(self.log)
        self._run = Direct(self.placement, self.log)
        self.at = NOON
        for node_id in nodes:
            self.join(node_id, gpus=gpus, model=model)

    def do(self, command: Callable[[int], T]) -> T:
        self.at += 1
        return self._run(lambda: command(self.at))

    def wait(self, us: int) -> None:
        self.at += us

    def invite(self, node_id: str, token: str, *, seconds: int = 600) -> None:
        until = self.at + seconds * SECOND
        placement = self.placement
        if node_id in placement.nodes.statuses:
            self.do(lambda at: placement.invite_again(node_id, token, expires_at=until, at=at))
        else:
            self.do(
                lambda at: placement.invite(node_id, token, source="local", expires_at=until, at=at)
            )

    def show(self, token: str, shown: Evidence) -> Membership:
        return self.do(lambda at: self.placement.join(token, shown, at=at))

    def join(self, node_id: str, *, gpus: int = 8, model: str = "H100") -> Membership:
        token = f"token-{node_id}-{self.at}"
        self.invite(node_id, token)
        return self.show(token, evidence(node_id, gpus=gpus, model=model))

    def hold(self, lease_id: str, count: int = 1, *, model: str = "H100") -> HoldResult:
        [result] = self.hold_all(request(lease_id, count, model=model))
        return result

    def hold_all(self, *requests: HoldRequest) -> list[HoldResult]:
        return self.do(lambda at: self.placement.place_holds(requests, at=at))

    def bind(self, lease_id: str, count: int = 1, **knobs: Any) -> None:
        asked, wanted = request(lease_id, count), intent(gpu_count=count, **knobs)
        self.do(lambda at: self.placement.bind(asked, wanted, at=at))

    def lease(self, lease_id: str, count: int = 1) -> None:
        """Held, bound, and handed to its node."""
        assert self.hold(lease_id, count).refusal is None
        self.bind(lease_id, count)
        self.sync(self.status(lease_id)["node_id"])

    def sync(
        self, node_id: str, *statuses: RunStatus, boot_id: str = "boot-1", revision: int = 0
    ) -> Orders:
        return self.do(
            lambda at: self.placement.sync(
                node_id, boot_id=boot_id, statuses=statuses, revision=revision, at=at
            )
        )

    def report(self, lease_id: str, state: RunState, run_us: int, **more: Any) -> Orders:
        """What the lease's own node says of it, with the right token."""
        lease = self.status(lease_id)
        status = RunStatus(lease_id, lease["fencing_token"], state, run_us, **more)
        return self.sync(lease["node_id"], status)

    def tick(self) -> None:
        self.do(lambda at: self.placement.tick(at=at))

    def status(self, lease_id: str) -> dict[str, Any]:
        return self.placement.lease(lease_id, "").state()

    def topics(self, aggregate_id: str) -> list[str]:
        """The last words of what happened to one lease or node."""
        return [e.topic.rpartition(".")[2] for e in self.log.history(aggregate_id)]

    def facts(self, topic: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.history() if name == f"placement.{topic}"]

    def history(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The log as anybody else would read it."""
        for event in self.log.events:
            yield event.topic, canonical.loads(event.data)

    def rebuilt(self) -> Placement:
        again = Placement(self.log)
        again.catch_up()
        return again


def evidence(
    node_id: str, *, gpus: int | tuple[Gpu, ...] = 8, model: str = "H100", **other: Any
) -> Evidence:
    if isinstance(gpus, int):
        gpus = tuple(gpu(index, f"GPU-{node_id}-{index}", model) for index in range(gpus))
    shown = {
        "hostname": f"{node_id}.example",
        "boot_id": "boot-1",
        "driver_version": "580.82.07",
        "simulated": False,
        "gpus": gpus,
        "key_sha256": f"key-{node_id}",
    }
    return Evidence(**{**shown, **other})


def gpu(index: int, uuid: str, model: str = "H100") -> Gpu:
    return Gpu(index, uuid, model, f"NVIDIA {model}", 80 * 1024**3, f"00000000:{index:02X}:00.0")


def request(lease_id: str, count: int = 1, *, model: str = "H100") -> HoldRequest:
    workload_id = workload(lease_id)
    return HoldRequest(lease_id, TENANT, workload_id, model, count, workload_id)


def workload(lease_id: str) -> str:
    return f"wl_{lease_id.removeprefix('lse_').partition('_')[0]}"


def intent(**knobs: Any) -> dict[str, Any]:
    job = {
        "command": ["python", "train.py", "--epochs", "3"],
        "environment": {"SEED": "7", "WANDB_MODE": "offline"},
        "gpu_model": "H100",
        "gpu_count": 1,
        "seconds_max": 3600,
    }
    return {
        "name": "sft-run",
        "project": "nlp",
        "env": "prod",
        "type": "training-job",
        "training_job": {**job, **knobs},
        "traits": [],
    }
