"""Placement's gauges. They are read by the metrics listener's thread: single numbers only."""

from functools import partial

from prometheus_client import Gauge

from chassis.metrics import REGISTRY
from placement.application import Placement
from placement.domain.lease import ACTIVE, BOUND, DRAINING, ENDED, HELD, LAPSED, REFUSED
from placement.domain.node import INVITED, QUARANTINED, READY

GPUS = Gauge("placement_gpus", "GPUs by what they are in", ["state"], registry=REGISTRY)
LEASES = Gauge("placement_leases", "Leases by state", ["state"], registry=REGISTRY)
NODES = Gauge("placement_nodes", "Nodes by status", ["status"], registry=REGISTRY)


def show(placement: Placement) -> None:
    """Let the gauges follow this application."""
    slots, states = placement.slots, placement.lease_states
    nodes, presence = placement.nodes, placement.presence

    def lease_count(state: str) -> int:
        return states.counts.get(state, 0)

    def node_count(status: str) -> int:
        return nodes.counts()[status]

    def silent_count() -> int:
        return sum(nodes.statuses.get(node_id) == READY for node_id in tuple(presence.silent))

    GPUS.labels("free").set_function(lambda: slots.index.free_count)
    GPUS.labels("held").set_function(lambda: slots.held_count)
    GPUS.labels("leased").set_function(lambda: slots.leased_count)
    for state in (HELD, LAPSED, REFUSED, BOUND, ACTIVE, DRAINING, ENDED):
        LEASES.labels(state).set_function(partial(lease_count, state))
    for status in (INVITED, QUARANTINED):
        NODES.labels(status).set_function(partial(node_count, status))
    NODES.labels(READY).set_function(lambda: node_count(READY) - silent_count())
    NODES.labels("silent").set_function(silent_count)
