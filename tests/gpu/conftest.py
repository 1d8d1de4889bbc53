"""What the tests on a real GPU share; without one they are skipped, each with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import pci_address

PYTHONS = (os.environ.get("MUSTER_GPU_PYTHON", ""), sys.executable, "/usr/bin/python3")
CUDA = "import sys, torch; sys.exit(not torch.cuda.is_available())"


@pytest.fixture(scope="session")
def gpus() -> dict[str, str]:
    """The models of this host's GPUs by PCI address."""
    if not shutil.which("nvidia-smi"):
        pytest.skip("no NVIDIA GPU here: there is no nvidia-smi")
    argv = ["nvidia-smi", "--query-gpu=pci.bus_id,name", "--format=csv,noheader"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    rows = [line.split(", ", 1) for line in done.stdout.splitlines() if ", " in line]
    found = {address: name for text, name in rows if (address := pci_address(text))}
    if done.returncode or not found:
        pytest.skip(f"no NVIDIA GPU here: nvidia-smi said {(done.stderr or done.stdout).strip()[:200]!r}")
    return found


@pytest.fixture(scope="session")
def python(gpus: dict[str, str]) -> str:
    """A Python whose torch sees the GPUs."""
    for path in PYTHONS:
        found = shutil.which(path) if path else None
        if found and subprocess.run([found, "-c", CUDA], capture_output=True, check=False, timeout=300).returncode == 0:
            return found
    pytest.skip("no Python here has a torch that sees the GPU; MUSTER_GPU_PYTHON may name one")


@pytest.fixture(scope="session")
def sxm(gpus: dict[str, str]) -> None:
    """Nothing, where every GPU is of a model whose rates are known."""
    others = {name for name in gpus.values() if name not in ("NVIDIA H100 80GB HBM3", "NVIDIA H200")}
    if others:
        pytest.skip(f"rates are known for H100 and H200 SXM alone, here is {', '.join(sorted(others))}")
