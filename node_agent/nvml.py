"""GPUs through NVIDIA's own bindings, nvidia-ml-py.

The bindings open "libnvidia-ml.so.1" by that name. To read through a library at another path it
is loaded first: the dynamic loader answers the later request with the object that already
carries the name. So the same code reads a real driver and the simulated one.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]

from chassis.errors import Unavailable
from node_agent.gpus import UNKNOWN, Gpu, Reading, model

_SIMULATION_SYMBOL = "leaseholdSimulatedNvml"


class NvmlReader:
    def __init__(self, library: Path | None = None) -> None:
        try:
            preloaded = ctypes.CDLL(str(library)) if library else None
            pynvml.nvmlInit()
            self.driver_version: str = pynvml.nvmlSystemGetDriverVersion()
        except (OSError, pynvml.NVMLError) as error:
            raise Unavailable(f"NVML cannot be used: {error}", code="NVML") from error
        if preloaded and pynvml.nvmlLib._handle != preloaded._handle:
            raise Unavailable(f"another NVML than {library} is loaded already", code="NVML")
        self.simulated = hasattr(pynvml.nvmlLib, _SIMULATION_SYMBOL)
        # Kept from the first sight, because a lost GPU no longer tells its name.
        self._uuids: dict[int, str] = {}

    def gpus(self) -> list[Gpu]:
        found = [self._gpu(index) for index in range(_count())]
        self._uuids.update({gpu.index: gpu.uuid for gpu in found if gpu})
        return [gpu for gpu in found if gpu]

    def readings(self) -> list[Reading]:
        return [self._reading(index) for index in range(_count())]

    def close(self) -> None:
        pynvml.nvmlShutdown()

    def _gpu(self, index: int) -> Gpu | None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = pynvml.nvmlDeviceGetName(handle)
            return Gpu(
                index=index,
                uuid=pynvml.nvmlDeviceGetUUID(handle),
                model=model(name),
                name=name,
                memory_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
                pci_bus_id=pynvml.nvmlDeviceGetPciInfo(handle).busId,
            )
        except pynvml.NVMLError:
            return None

    def _reading(self, index: int) -> Reading:
        handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index, default=None)
        uuid = self._uuids.get(index, "")
        if handle is None:
            return Reading(index, uuid, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, default=None)
        rates = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle, default=None)
        return Reading(
            index=index,
            uuid=_ask(pynvml.nvmlDeviceGetUUID, handle, default=uuid),
            memory_bytes_used=memory.used if memory else UNKNOWN,
            memory_bytes_total=memory.total if memory else UNKNOWN,
            utilisation_percent=rates.gpu if rates else UNKNOWN,
            temperature_celsius=_ask(
                pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            power_milliwatts=_ask(pynvml.nvmlDeviceGetPowerUsage, handle),
        )


def _count() -> int:
    return int(_ask(pynvml.nvmlDeviceGetCount, default=0))


def _ask(question: Callable[..., Any], *about: Any, default: Any = UNKNOWN) -> Any:
    try:
        return question(*about)
    except pynvml.NVMLError:
        return default
