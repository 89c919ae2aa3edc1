"""When memory is under pressure, when it has recovered, and which readings cannot be true. Pure."""

from dataclasses import dataclass

# The first step of the ladder. The later steps (batch-size reduction, admission stop, eviction,
# shutdown) are declared per tier and come after it.
THROTTLE = "throttle"

PRESSURE_PERCENT = 92
# Lower than the threshold above, so that a reading at the edge does not flap.
RECOVERY_PERCENT = 80
# So many readings in a row, all over or all under, before anything is done.
WINDOW_SAMPLES = 3

UTILISATION_MAX = 100


@dataclass(frozen=True)
class Sample:
    """One reading of one GPU; -1 where the driver does not say."""

    seq: int
    slot: int
    gpu_uuid: str
    memory_bytes_used: int
    memory_bytes_total: int
    utilisation_percent: int


@dataclass(frozen=True)
class Streak:
    """Readings in a row over the pressure threshold, and in a row under the recovery one."""

    over: int = 0
    under: int = 0

    def after(self, sample: Sample) -> "Streak":
        used, total = sample.memory_bytes_used * 100, sample.memory_bytes_total
        over = self.over + 1 if used >= PRESSURE_PERCENT * total else 0
        under = self.under + 1 if used <= RECOVERY_PERCENT * total else 0
        return Streak(min(over, WINDOW_SAMPLES), min(under, WINDOW_SAMPLES))

    @property
    def is_pressure(self) -> bool:
        return self.over >= WINDOW_SAMPLES

    @property
    def is_recovery(self) -> bool:
        return self.under >= WINDOW_SAMPLES


def flaw(sample: Sample, seq_last: int) -> str | None:
    """Why a reading is not used, or None if it can be true."""
    if sample.seq <= seq_last:
        return f"seq {sample.seq} is not after {seq_last}"
    if sample.memory_bytes_total <= 0 or sample.memory_bytes_used < 0:
        return "the driver does not tell memory"
    if sample.memory_bytes_used > sample.memory_bytes_total:
        return f"{sample.memory_bytes_used} of {sample.memory_bytes_total} bytes in use"
    if sample.utilisation_percent > UTILISATION_MAX:
        return f"utilisation is {sample.utilisation_percent} %"
    return None
