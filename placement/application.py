"""Placement's workflows: load, ask the rules, save.

Reactions and node reports come late, twice or for things long gone; those commands do nothing
then. What a person or a service asked for is refused with a reason instead.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chassis.application import Application, Log
from chassis.errors import Conflict, Denied, Invalid, NotFound, Refused
from placement import policy, render
from placement.domain.lease import ENDED, HELD, LAPSED, REFUSED, Lease
from placement.domain.node import INVITED, READY, Node, TokenUnknown
from placement.fit import Misfit, Spot, Tentative
from placement.policy import (
    EndCause,
    Evidence,
    HoldRefusal,
    HoldRequest,
    HoldResult,
    Orders,
    QuarantineCause,
    RunState,
    RunStatus,
)
from placement.presence import Presence
from placement.projections import (
    Assignments,
    Expiry,
    LeasesByTenant,
    LeaseStates,
    Nodes,
    Slots,
)


@dataclass(frozen=True)
class Membership:
    """What became of a join; a node in quarantine gets no certificate."""

    node_id: str
    quarantine: QuarantineCause | None = None


class Placement(Application):
    service = "placement"
    aggregates = (Lease, Node)

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.slots = Slots()
        self.assignments = Assignments()
        self.by_tenant = LeasesByTenant()
        self.lease_states = LeaseStates()
        self.expiry = Expiry()
        self.nodes = Nodes()
        self.views = {
            "slots": self.slots,
            "assignments": self.assignments,
            "leases_by_tenant": self.by_tenant,
            "lease_states": self.lease_states,
            "expiry": self.expiry,
            "nodes": self.nodes,
        }
        self.presence = Presence()
        self.terms = policy.Terms()
        self.allow_simulated = True

    # Nodes.

    def invite(
        self, node_id: str, token_sha256: str, *, source: str, expires_at: int, at: int
    ) -> None:
        node = Node.invite(node_id, token_sha256, source=source, expires_at=expires_at, at=at)
        self.save(node)

    def invite_again(self, node_id: str, token_sha256: str, *, expires_at: int, at: int) -> None:
        node = self.get(Node, node_id)
        node.invite_again(token_sha256, expires_at=expires_at, at=at)
        self.save(node)

    def join(self, token_sha256: str, evidence: Evidence, *, at: int) -> Membership:
        """Trade a token and evidence for membership. Quarantine is an answer, not an error:
        the token is used and the clash is a fact, for both nodes."""
        node_id = self.nodes.tokens.get(token_sha256)
        if node_id is None:
            raise TokenUnknown("no such token")
        node = self.get(Node, node_id)
        if not node.admits(token_sha256, evidence.key_sha256, at=at):
            return Membership(
                node_id, None if node.status == READY else QuarantineCause(node.cause)
            )
        if refusal := policy.join_refusal(evidence, allow_simulated=self.allow_simulated):
            raise Refused(f"the evidence is not accepted: {refusal}", code=refusal.value)
        cause = self._quarantine_cause(node, evidence, at=at)
        node.join(evidence, at=at)
        if cause is not None:
            node.quarantine(cause, at=at)
        self.save(node)
        self._hear(node_id, at=at)
        return Membership(node_id, cause)

    def require_member(self, node_id: str) -> None:
        """Refuse a node that may not have a certificate."""
        node = self.find(Node, node_id)
        if node is None:
            raise Denied("this node is not known here", code="NODE_UNKNOWN")
        if node.status != READY:
            raise Denied(f"this node is {node.status}", code="NODE_QUARANTINED")

    def _quarantine_cause(
        self, node: Node, evidence: Evidence, *, at: int
    ) -> QuarantineCause | None:
        """Quarantines the other nodes of a clash on the way."""
        clashing = [
            other
            for other in self.nodes.others_claiming(node.id, (gpu.uuid for gpu in evidence.gpus))
            if self.nodes.statuses[other] == READY or self.slots.in_use(other)
        ]
        for other in clashing:
            clash = self.get(Node, other)
            clash.quarantine(QuarantineCause.GPU_CLAIMED_TWICE, at=at)
            self.save(clash)
        if clashing:
            return QuarantineCause.GPU_CLAIMED_TWICE
        after = {gpu.index: gpu.uuid for gpu in evidence.gpus}
        if policy.evidence_changed(node.uuids, after, self.slots.in_use(node.id)):
            return QuarantineCause.EVIDENCE_CHANGED
        return None

    # Holds.

    def place_holds(self, requests: Iterable[HoldRequest], *, at: int) -> list[HoldResult]:
        with self.slots.index.tentative() as free:
            return [self._place_hold(request, free, at=at) for request in requests]

    def _place_hold(self, request: HoldRequest, free: Tentative, *, at: int) -> HoldResult:
        if known := self.find(Lease, request.lease_id):
            return _repeated(known, request)
        found = free.best(request.gpu_model, request.gpu_count)
        if isinstance(found, Misfit):
            return HoldResult(request.lease_id, found.refusal, found.detail)
        return self._hold(request, found, expires_at=at + self.terms.hold_us, at=at)

    def _hold(self, request: HoldRequest, spot: Spot, *, expires_at: int, at: int) -> HoldResult:
        lease = Lease.hold(
            request, node_id=spot.node_id, slots=spot.slots, expires_at=expires_at, at=at
        )
        self.save(lease, because=request.causation_id)
        return HoldResult(request.lease_id, expires_at=expires_at)

    def release_holds(self, lease_ids: Iterable[str], *, at: int) -> None:
        for lease_id in lease_ids:
            if lease := self.find(Lease, lease_id):
                lease.lapse("RELEASED", at=at)
                self.save(lease)

    # Leases.

    def bind(self, request: HoldRequest, intent: Mapping[str, Any], *, at: int) -> None:
        """Make an admitted workload's hold a lease; take other GPUs if the hold is gone."""
        lease = self.find(Lease, request.lease_id)
        if lease is None:
            # Admitted without a hold of ours. It begins as a hold of nothing, so that what
            # becomes of it is on record.
            lease = Lease.hold(request, node_id="", slots=(), expires_at=at, at=at)
        if lease.status not in (HELD, LAPSED):
            return
        count = len(lease.slots) or request.gpu_count
        spot = self._spot(lease, count)
        if isinstance(spot, Misfit):
            lease.refuse_binding(spot.refusal.value, at=at)
        else:
            self._bind_to(lease, spot, intent, at=at)
        self.save(lease)

    def _spot(self, lease: Lease, count: int) -> Spot | Misfit:
        if lease.status == HELD and lease.slots and self.slots.is_ready(lease.node_id):
            return Spot(lease.node_id, tuple(lease.slots))
        return self.slots.index.best(lease.gpu_model, count)

    def _bind_to(self, lease: Lease, spot: Spot, intent: Mapping[str, Any], *, at: int) -> None:
        uuids = self.get(Node, spot.node_id).uuids
        cell = render.Cell(
            lease_id=lease.id,
            tenant_id=lease.tenant_id,
            workload_id=lease.workload_id,
            gpu_uuids=tuple(uuids[slot] for slot in spot.slots),
        )
        try:
            release = render.release(intent, cell)
        except Invalid as flaw:
            lease.fail(f"{flaw.code}: {flaw.message}", at=at)
            return
        lease.bind(
            release,
            node_id=spot.node_id,
            slots=spot.slots,
            fencing_token=self.assignments.token_last + 1,
            expires_at=at + self.terms.lease_us,
            at=at,
        )

    def drain(self, lease_id: str, cause: EndCause, *, at: int) -> None:
        if lease := self.find(Lease, lease_id):
            lease.drain(cause, at=at)
            self.save(lease)

    def constrain(self, lease_id: str, step: str, cause: str, *, at: int) -> None:
        if lease := self.find(Lease, lease_id):
            lease.constrain(step, cause, at=at)
            self.save(lease)

    # What nodes say and hear.

    def sync(
        self,
        node_id: str,
        *,
        boot_id: str,
        statuses: Iterable[RunStatus],
        revision: int,
        at: int,
    ) -> Orders:
        """Record what a node reports and answer what it should have."""
        node = self.get(Node, node_id)
        self._hear(node_id, at=at)
        node.boot(boot_id, at=at)
        self.save(node)
        settled = [s.lease_id for s in statuses if self._settle(node, s, at=at)]
        return replace(self._orders(node_id, revision, at=at), settled=tuple(settled))

    def attend(self, node_id: str, *, revision: int, at: int) -> Orders:
        """Answer a node that waited for news and has ``revision``."""
        self._hear(node_id, at=at)
        return self._orders(node_id, revision, at=at)

    def _settle(self, node: Node, status: RunStatus, *, at: int) -> bool:
        """Take in one status; True if the node may forget the lease.

        A report with another token, of another node's lease or of a lease that is over, changes
        nothing; what has ended on the node is then nobody's any more.
        """
        lease = self.find(Lease, status.lease_id)
        is_over = status.state is not RunState.RUNNING
        if lease is None or not lease.is_open or lease.node_id != node.id:
            return is_over
        if lease.fencing_token != status.fencing_token:
            return is_over
        lease.report(
            status,
            boot_id=node.boot_id,
            delivered_at=self.presence.delivered_at(lease.id),
            lease_us=self.terms.lease_us,
            at=at,
        )
        self.save(lease)
        self.presence.confirm(lease.id, status.run_us)
        if lease.status == ENDED:
            self.presence.forget(lease.id)
        return is_over

    def _orders(self, node_id: str, revision: int, *, at: int) -> Orders:
        found = []
        for lease_id, bound_revision in self.assignments.leases(node_id).items():
            lease = self.get(Lease, lease_id)
            if not lease.is_open:
                continue  # ended by the report that is being answered
            if revision < bound_revision and not lease.activated_at:
                self.presence.deliver(lease_id, at=at)
            found.append(lease.order())
        return Orders(self.assignments.revision(node_id), tuple(found), (), at)

    def _hear(self, node_id: str, *, at: int) -> None:
        if self.presence.hear(node_id, at=at):
            self.slots.index.set_away(node_id, False)

    # The clock.

    def expect_nodes(self, *, at: int) -> None:
        """After a start: nodes that do not speak from now on are silent, too."""
        joined = [node_id for node_id, status in self.nodes.statuses.items() if status != INVITED]
        self.presence.expect(joined, at=at)

    def next_due_at(self) -> int | None:
        """When ``tick`` next has something to do."""
        due = [at for at in (self.expiry.next_at(), self.presence.next_at()) if at is not None]
        return min(due, default=None)

    def tick(self, *, at: int, count_max: int = 2000) -> None:
        for node_id in self.presence.fall_silent(at=at):
            self.slots.index.set_away(node_id, True)
        for lease_id in self.expiry.due(at, count_max):
            lease = self.get(Lease, lease_id)
            lease.lapse("EXPIRED", at=at)
            if lease.is_open:
                self._lose(lease, at=at)
            self.save(lease)

    def _lose(self, lease: Lease, *, at: int) -> None:
        """End a lease that is overdue, once its node has had the chance to report its end:
        after an outage of ours it may know better how long the program ran."""
        silent = lease.node_id in self.presence.silent
        heard_at = self.presence.seen_at.get(lease.node_id, 0)
        if silent or heard_at >= self.expiry.due_at[lease.id]:
            lease.lose(self.presence.run_us(lease.id), node_silent=silent, at=at)
            self.presence.forget(lease.id)

    # Questions.

    def lease(self, lease_id: str, tenant_id: str) -> Lease:
        """A tenant's lease; "" may see everybody's."""
        lease = self.get(Lease, lease_id)
        if tenant_id not in ("", lease.tenant_id):
            raise NotFound(f"no lease {lease_id!r}", code="LEASE_NOT_FOUND")
        return lease

    def leases(self, tenant_id: str, before: int, count_max: int) -> tuple[list[Lease], int]:
        """The newest first, from below position ``before`` (0: from the top), and the position
        to go on from, 0 at the end."""
        ids = self.by_tenant.ids.get(tenant_id, [])
        top = min(before, len(ids)) if before else len(ids)
        bottom = max(0, top - count_max)
        return [self.get(Lease, lease_id) for lease_id in reversed(ids[bottom:top])], bottom

    def all_nodes(self) -> list[Node]:
        return [self.get(Node, node_id) for node_id in sorted(self.nodes.statuses)]


def _repeated(lease: Lease, request: HoldRequest) -> HoldResult:
    """The answer to a hold that was asked for before."""
    known = (lease.tenant_id, lease.workload_id, lease.gpu_model)
    if known != (request.tenant_id, request.workload_id, request.gpu_model):
        raise Conflict(f"{lease.id} was asked for something else", code="LEASE_ID_REUSED")
    if lease.status in (LAPSED, REFUSED):
        detail = f"the hold has lapsed: {lease.cause}"
        return HoldResult(lease.id, HoldRefusal.LAPSED, detail)
    if len(lease.slots) != request.gpu_count:
        raise Conflict(f"{lease.id} was asked for something else", code="LEASE_ID_REUSED")
    return HoldResult(lease.id, expires_at=lease.expires_at)
