"""What a node knows about its GPUs, whoever reads it.

An index is a slot of the node and never moves: a GPU that cannot be read keeps its slot and
answers UNKNOWN values, because one broken device must not hide the seven others.
"""

from dataclasses import dataclass
from typing import Protocol

UNKNOWN = -1

# Words of a product line, which say nothing about the model.
_LINES = {"NVIDIA", "TESLA", "QUADRO", "GEFORCE"}
# Words that are only half a name: "RTX 4090".
_HALVES = {"RTX", "GTX"}


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    model: str
    name: str
    memory_bytes: int
    pci_bus_id: str


@dataclass(frozen=True)
class Reading:
    """One GPU at one moment; UNKNOWN where the driver does not say."""

    index: int
    uuid: str
    memory_bytes_used: int
    memory_bytes_total: int
    utilisation_percent: int
    temperature_celsius: int
    power_milliwatts: int


class GpuReader(Protocol):
    """Reads the machine's GPUs. ``simulated`` is true when there are none in truth."""

    simulated: bool
    driver_version: str

    def gpus(self) -> list[Gpu]:
        """The GPUs that can be identified; one without a uuid cannot be leased and is left out."""

    def readings(self) -> list[Reading]:
        """One reading per slot, also of a GPU that fails."""

    def close(self) -> None: ...


def model(name: str) -> str:
    """The catalog's model for a driver's name: "NVIDIA H100 80GB HBM3" is an "H100"."""
    words = [word for word in name.replace("-", " ").upper().split() if word not in _LINES]
    if not words:
        return ""
    return "".join(words[:2]) if words[0] in _HALVES else words[0]
