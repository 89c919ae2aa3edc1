"""The metrics of a node agent. Label values are names of loops, states and slots, never ids."""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import Counter, Gauge

from chassis.metrics import REGISTRY
from node_agent.gpus import Reading
from node_agent.policy import JobState, Run

simulated = Gauge("node_agent_simulated", "1 when the GPUs are simulated", registry=REGISTRY)
slices_pending = Gauge(
    "node_agent_slices_pending", "Slices that billing has not answered", registry=REGISTRY
)
failures = Counter(
    "node_agent_failures_total", "Failed steps of a loop", ("loop",), registry=REGISTRY
)
_runs = Gauge("node_agent_runs", "Leases on this node", ("state",), registry=REGISTRY)
_gpu_memory = Gauge(
    "node_agent_gpu_memory_used_bytes", "Memory in use, -1 if unknown", ("slot",), registry=REGISTRY
)


def show_runs(runs: Iterable[Run]) -> None:
    tally = Tally(run.state for run in runs)
    for state in JobState:
        _runs.labels(state).set(tally[state])


def show_readings(readings: Iterable[Reading]) -> None:
    for reading in readings:
        _gpu_memory.labels(str(reading.index)).set(reading.memory_bytes_used)
