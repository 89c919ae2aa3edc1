"""The simulated NVML library, compiled once, and a state file for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from node_agent import simulated

SOURCE = Path(__file__).parents[2] / "deploy" / "simulated_nvml" / "simulated_nvml.c"


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    options = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([compiler, *options, "-o", library, SOURCE, "-lpthread"], check=True)
    return library


@pytest.fixture
def gpu_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a node with eight simulated GPUs, named in the environment."""
    path = tmp_path / "gpus.txt"
    path.write_text(simulated.machine("node-1"))
    monkeypatch.setenv(simulated.STATE_VARIABLE, str(path))
    return path
