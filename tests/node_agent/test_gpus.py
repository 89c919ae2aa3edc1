"""GPUs through nvidia-ml-py and the compiled library, and through the plain reader."""

import os
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from chassis.errors import Refused, Unavailable
from node_agent.__main__ import NodeAgentSettings, open_reader
from node_agent.gpus import UNKNOWN, model
from node_agent.nvml import NvmlReader
from node_agent.simulated import SimulatedReader

GIB = 1024**3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("", ""),
    ],
)
def test_a_drivers_name_becomes_the_catalogs_model(name: str, expected: str) -> None:
    assert model(name) == expected


def test_nvidias_bindings_read_the_simulated_library(nvml_library: Path, gpu_state: Path) -> None:
    reader = NvmlReader(nvml_library)
    assert reader.simulated
    assert reader.driver_version == "580.82.07"
    gpus = reader.gpus()
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert len({gpu.uuid for gpu in gpus}) == 8
    assert gpus[0].model == "H100"
    assert gpus[0].memory_bytes == 80 * GIB
    assert gpus[1].pci_bus_id == "00000000:2B:00.0"
    reader.close()


def test_the_library_has_what_nvidias_bindings_ask_for(nvml_library: Path, gpu_state: Path) -> None:
    change(gpu_state, "gpu.3.process.0=4242,1073741824", "gpu.3.process.1=4243,5")
    reader = NvmlReader(nvml_library)
    gpu = pynvml.nvmlDeviceGetHandleByIndex(3)
    uuid = pynvml.nvmlDeviceGetUUID(gpu)
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == 3
    assert pynvml.nvmlDeviceGetMinorNumber(gpu) == 3
    assert pynvml.nvmlDeviceGetSerial(gpu).isdecimal()
    assert pynvml.nvmlDeviceGetPciInfo(gpu).bus == 0x4B
    second = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
    assert (second.total, second.used, second.free) == (80 * GIB, GIB, 79 * GIB)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    assert [(each.pid, each.usedGpuMemory) for each in processes] == [(4242, GIB), (4243, 5)]
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigMode(gpu)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-of-nobody")
    assert "leasehold-simulated" in pynvml.nvmlSystemGetNVMLVersion()
    reader.close()


def test_both_readers_give_the_same_answers(nvml_library: Path, gpu_state: Path) -> None:
    change(
        gpu_state,
        "gpu.1.memory_bytes_used=85899345920",
        "gpu.2.error=15",
        "gpu.3.utilisation_percent=97",
    )
    change(gpu_state, without="gpu.4.power_milliwatts")
    change(gpu_state, without="gpu.5.memory_bytes_used")
    gpu_state.write_text(gpu_state.read_text() + "gpu.6.memory_bytes_used=7\n")
    compiled, plain = NvmlReader(nvml_library), SimulatedReader(gpu_state)
    assert plain.simulated
    assert compiled.gpus() == plain.gpus()
    assert compiled.driver_version == plain.driver_version
    assert compiled.readings() == plain.readings()
    compiled.close()


@pytest.mark.parametrize("kind", ["compiled", "plain"])
def test_a_lost_gpu_keeps_its_slot_and_the_others_are_read_on(
    kind: str, nvml_library: Path, gpu_state: Path
) -> None:
    reader = NvmlReader(nvml_library) if kind == "compiled" else SimulatedReader(gpu_state)
    uuid = reader.gpus()[2].uuid
    change(gpu_state, "gpu.2.error=15")
    readings = reader.readings()
    assert [each.index for each in readings] == list(range(8))
    assert readings[2].uuid == uuid
    assert readings[2].memory_bytes_used == readings[2].temperature_celsius == UNKNOWN
    assert readings[3].memory_bytes_used == GIB
    assert [gpu.index for gpu in reader.gpus()] == [0, 1, 3, 4, 5, 6, 7]
    change(gpu_state, "gpu.2.error=0")
    assert reader.readings()[2].memory_bytes_used == GIB
    reader.close()


def test_a_missing_library_or_state_is_one_clear_sentence(
    tmp_path: Path, nvml_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match="NVML cannot be used"):
        NvmlReader(tmp_path / "nothing.so")
    monkeypatch.delenv("LEASEHOLD_SIMULATED_NVML_STATE", raising=False)
    with pytest.raises(Unavailable, match="set LEASEHOLD_SIMULATED_NVML_STATE"):
        SimulatedReader.from_environment()
    with pytest.raises(Unavailable, match="holds no simulated GPUs"):
        SimulatedReader(tmp_path / "nothing.txt")


@pytest.mark.parametrize("kind", ["compiled", "plain"])
def test_simulated_gpus_are_refused_in_production(
    kind: str, nvml_library: Path, gpu_state: Path, tmp_path: Path
) -> None:
    settings = NodeAgentSettings(
        environment="production",
        state_dir=tmp_path,
        peers={},
        metrics_port=0,
        nvml=str(nvml_library) if kind == "compiled" else "python",
    )
    with pytest.raises(Refused, match="refused in production"):
        open_reader(settings)
    assert open_reader(replace(settings, environment="development")).simulated


def change(state: Path, *lines: str, without: str = "") -> None:
    """Replaces the values of some keys, in one rename as the library asks for."""
    keys = tuple(line.split("=")[0] + "=" for line in lines) + ((f"{without}=",) if without else ())
    kept = [line for line in state.read_text().splitlines() if not line.startswith(keys)]
    new = state.with_suffix(".new")
    new.write_text("\n".join([*kept, *lines]) + "\n")
    os.replace(new, state)
