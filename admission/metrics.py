"""What admission counts. Counters move at the edge only, so that a replay counts nothing twice."""

from functools import partial

from prometheus_client import Counter, Gauge, Histogram

from admission.policy import PendingReason
from admission.projections import Queue
from chassis.metrics import REGISTRY

WORKLOADS = Counter(
    "admission_workloads",
    "Workloads by what became of them: submitted, refused, admitted, succeeded, failed, stopped",
    ["outcome"],
    registry=REGISTRY,
)
DECISION = Histogram(
    "admission_decision_seconds",
    "From choosing candidates to recording what was decided",
    registry=REGISTRY,
)
_PENDING = Gauge(
    "admission_pending", "Workloads that wait, by reason", ["reason"], registry=REGISTRY
)


def show_pending(queue: Queue) -> None:
    """The gauge reads the queue's own counts, from the listener's thread."""
    for reason in PendingReason:
        _PENDING.labels(reason.value).set_function(partial(queue.pending, reason.value))
