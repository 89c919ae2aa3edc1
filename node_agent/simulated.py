"""Simulated GPUs without a C compiler: reads the state file of deploy/simulated_nvml directly.

It must answer what the compiled library answers for the same file, and it always says that it
is simulated. ``machine`` writes such a file for a whole node.
"""

import hashlib
import os
from pathlib import Path

from chassis.errors import Unavailable
from node_agent.gpus import UNKNOWN, Gpu, Reading, model

STATE_VARIABLE = "LEASEHOLD_SIMULATED_NVML_STATE"
_GIB = 1024**3


class SimulatedReader:
    simulated = True

    def __init__(self, state: Path) -> None:
        self._path = state
        self._values: dict[str, str] = {}
        self._refresh()
        if "gpu_count" not in self._values:
            raise Unavailable(f"{state} holds no simulated GPUs", code="NVML")
        self.driver_version = self._values.get("driver_version", "")
        self._uuids: dict[int, str] = {}

    @classmethod
    def from_environment(cls) -> "SimulatedReader":
        path = os.environ.get(STATE_VARIABLE, "")
        if not path:
            raise Unavailable(f"set {STATE_VARIABLE} to the file of simulated GPUs", code="NVML")
        return cls(Path(path))

    def gpus(self) -> list[Gpu]:
        self._refresh()
        found = [self._gpu(index) for index in range(self._count())]
        self._uuids.update({gpu.index: gpu.uuid for gpu in found if gpu})
        return [gpu for gpu in found if gpu]

    def readings(self) -> list[Reading]:
        self._refresh()
        return [self._reading(index) for index in range(self._count())]

    def close(self) -> None:
        self._values = {}

    def _count(self) -> int:
        return int(self._values.get("gpu_count", "0"))

    def _gpu(self, index: int) -> Gpu | None:
        name, uuid = self._text(index, "name"), self._text(index, "uuid")
        _, memory_bytes = self._memory(index)
        if not name or not uuid or memory_bytes == UNKNOWN:
            return None
        return Gpu(index, uuid, model(name), name, memory_bytes, self._text(index, "pci_bus_id"))

    def _reading(self, index: int) -> Reading:
        used, total = self._memory(index)
        return Reading(
            index=index,
            uuid=self._text(index, "uuid") or self._uuids.get(index, ""),
            memory_bytes_used=used,
            memory_bytes_total=total,
            utilisation_percent=self._number(index, "utilisation_percent"),
            temperature_celsius=self._number(index, "temperature_celsius"),
            power_milliwatts=self._number(index, "power_milliwatts"),
        )

    def _memory(self, index: int) -> tuple[int, int]:
        """Used and total. NVML answers them in one call: either both are known or neither."""
        used = self._number(index, "memory_bytes_used")
        total = self._number(index, "memory_bytes_total")
        return (UNKNOWN, UNKNOWN) if UNKNOWN in (used, total) else (used, total)

    def _text(self, index: int, key: str) -> str:
        failed = self._values.get(f"gpu.{index}.error", "0") != "0"
        return "" if failed else self._values.get(f"gpu.{index}.{key}", "")

    def _number(self, index: int, key: str) -> int:
        text = self._text(index, key)
        return int(text) if text.isdecimal() else UNKNOWN

    def _refresh(self) -> None:
        try:
            lines = self._path.read_text().splitlines()
        except OSError:
            # As the compiled library: the last state stays in force.
            return
        # Backwards, so that of two lines with one key the first counts, as in the library.
        self._values = dict(line.split("=", 1) for line in reversed(lines) if "=" in line)


def machine(identity: str, *, gpu_count: int = 8, name: str = "NVIDIA H100 80GB HBM3") -> str:
    """The state file of a simulated node; its GPUs' uuids follow from ``identity``."""
    lines = ["driver_version=580.82.07", f"gpu_count={gpu_count}"]
    for index in range(gpu_count):
        digest = hashlib.sha256(f"{identity}/{index}".encode()).hexdigest()
        uuid = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
        values = {
            "name": name,
            "uuid": f"GPU-{uuid}",
            "serial": str(int(digest[32:42], 16)),
            "minor": index,
            "pci_bus_id": f"00000000:{0x1B + 0x10 * index:02X}:00.0",
            "memory_bytes_total": 80 * _GIB,
            "memory_bytes_used": _GIB,
            "utilisation_percent": 0,
            "temperature_celsius": 34,
            "power_milliwatts": 68_000,
        }
        lines += [f"gpu.{index}.{key}={value}" for key, value in values.items()]
    return "\n".join(lines) + "\n"
