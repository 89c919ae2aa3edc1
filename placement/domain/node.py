"""A node: a machine that was invited by a one-time token and showed its GPUs.

Only hashes of tokens and keys are recorded. A token works once; whoever repeats a join with the
token and the key that it was used with gets the same answer, because the first one may be lost.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from chassis.aggregates import Aggregate, FirstEvent
from chassis.errors import Denied
from placement.policy import Evidence, QuarantineCause

INVITED, READY, QUARANTINED = "invited", "ready", "quarantined"


class TokenUnknown(Denied):
    default_code = "TOKEN_UNKNOWN"


class TokenUsed(Denied):
    default_code = "TOKEN_USED"


class TokenExpired(Denied):
    default_code = "TOKEN_EXPIRED"


class Node(Aggregate):
    TOPIC = "placement.node"

    def __init__(self, token_sha256: str, expires_at: int, source: str) -> None:
        self.token_sha256 = token_sha256
        self.token_expires_at = expires_at
        self.token_used = False
        self.source = source
        self.status = INVITED
        # Why it is in quarantine, if it is.
        self.cause = ""
        self.hostname = ""
        self.boot_id = ""
        self.driver_version = ""
        self.simulated = False
        self.gpus: list[dict[str, Any]] = []
        self.key_sha256 = ""

    @classmethod
    def invite(
        cls, node_id: str, token_sha256: str, *, source: str, expires_at: int, at: int
    ) -> Node:
        return cls._create(
            cls.TokenIssued,
            id=node_id,
            timestamp=at,
            token_sha256=token_sha256,
            expires_at=expires_at,
            source=source,
        )

    class TokenIssued(FirstEvent):
        TOPIC = "placement.node.token_issued"
        token_sha256: str
        expires_at: int
        source: str

    def invite_again(self, token_sha256: str, *, expires_at: int, at: int) -> None:
        self.trigger_event(
            self.TokenReissued, timestamp=at, token_sha256=token_sha256, expires_at=expires_at
        )

    class TokenReissued(Aggregate.Event):
        TOPIC = "placement.node.token_reissued"
        token_sha256: str
        expires_at: int

        def apply(self, node: Node) -> None:
            node.token_sha256 = self.token_sha256
            node.token_expires_at = self.expires_at
            node.token_used = False

    def admits(self, token_sha256: str, key_sha256: str, *, at: int) -> bool:
        """Whether the token still has to be used; False if this is the same join again."""
        if token_sha256 != self.token_sha256:
            raise TokenUsed("this token was used or replaced; ask for a new one")
        if self.token_used and key_sha256 != self.key_sha256:
            raise TokenUsed("this token was used; ask for a new one")
        if at >= self.token_expires_at:
            raise TokenExpired("this token has expired; ask for a new one")
        return not self.token_used

    def join(self, evidence: Evidence, *, at: int) -> None:
        self.trigger_event(
            self.Joined,
            timestamp=at,
            hostname=evidence.hostname,
            boot_id=evidence.boot_id,
            driver_version=evidence.driver_version,
            simulated=evidence.simulated,
            gpus=[asdict(gpu) for gpu in sorted(evidence.gpus, key=lambda gpu: gpu.index)],
            key_sha256=evidence.key_sha256,
        )

    class Joined(Aggregate.Event):
        TOPIC = "placement.node.joined"
        hostname: str
        boot_id: str
        driver_version: str
        simulated: bool
        gpus: list[dict[str, Any]]
        key_sha256: str

        def apply(self, node: Node) -> None:
            node.status = READY
            node.cause = ""
            node.token_used = True
            node.hostname = self.hostname
            node.boot_id = self.boot_id
            node.driver_version = self.driver_version
            node.simulated = self.simulated
            node.gpus = self.gpus
            node.key_sha256 = self.key_sha256

    def boot(self, boot_id: str, *, at: int) -> None:
        if boot_id != self.boot_id:
            self.trigger_event(self.Rebooted, timestamp=at, boot_id=boot_id)

    class Rebooted(Aggregate.Event):
        TOPIC = "placement.node.rebooted"
        boot_id: str

        def apply(self, node: Node) -> None:
            node.boot_id = self.boot_id

    def quarantine(self, cause: QuarantineCause, *, at: int) -> None:
        if self.status != QUARANTINED:
            self.trigger_event(self.Quarantined, timestamp=at, cause=cause.value)

    class Quarantined(Aggregate.Event):
        TOPIC = "placement.node.quarantined"
        cause: str

        def apply(self, node: Node) -> None:
            node.status = QUARANTINED
            node.cause = self.cause

    @property
    def uuids(self) -> dict[int, str]:
        return {gpu["index"]: gpu["uuid"] for gpu in self.gpus}
