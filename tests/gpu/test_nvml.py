"""What we read through nvidia-smi against what the driver's library says itself."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load.gpu_telemetry_program import (
    FIELDS,
    Sample,
    replays,
    sample_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvidia_smi
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import pci_address


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t of nvml.h."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    )


class MemoryInfo(ctypes.Structure):
    """nvmlMemory_t of nvml.h."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


@pytest.fixture(scope="module")
def handles(gpus: dict[str, str]) -> Iterator[tuple[Any, dict[str, ctypes.c_void_p]]]:
    """The library, and its handle of each GPU by PCI address."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as exc:
        pytest.skip(f"no NVML here: {exc}")
    assert library.nvmlInit_v2() == 0
    count = ctypes.c_uint()
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    found = {}
    for index in range(count.value):
        handle, pci = ctypes.c_void_p(), PciInfo()
        assert library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
        assert library.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci)) == 0
        found[pci_address(pci.busId.decode()) or ""] = handle
    yield library, found
    library.nvmlShutdown()


def told(library: Any, function: str, handle: ctypes.c_void_p, *arguments: int) -> int:
    value = ctypes.c_uint()
    assert getattr(library, function)(handle, *arguments, ctypes.byref(value)) == 0, function
    return value.value


@pytest.fixture(scope="module")
def samples(gpus: dict[str, str]) -> dict[str, Sample]:
    argv = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    found = [sample_of(line) for line in lines]
    assert all(found), lines
    return {sample.gpu: sample for sample in found if sample}


def test_both_see_the_same_gpus(handles: Any, samples: dict[str, Sample], gpus: dict[str, str]) -> None:
    assert set(handles[1]) == set(samples) == set(gpus)


def test_telemetry_agrees_with_nvml(handles: Any, samples: dict[str, Sample]) -> None:
    library, found = handles
    for gpu, handle in found.items():
        quantities = samples[gpu].quantities
        assert quantities["power_limit_watts"] == pytest.approx(
            told(library, "nvmlDeviceGetEnforcedPowerLimit", handle) / 1000, abs=0.01
        )
        # Moments lie between the two: what may move is given room.
        assert quantities["power_watts"] == pytest.approx(
            told(library, "nvmlDeviceGetPowerUsage", handle) / 1000, abs=60
        )
        assert quantities["temperature_celsius"] == pytest.approx(
            told(library, "nvmlDeviceGetTemperature", handle, 0), abs=5
        )
        assert quantities["pcie_width"] == told(library, "nvmlDeviceGetCurrPcieLinkWidth", handle)
        assert replays()[0][gpu] == pytest.approx(told(library, "nvmlDeviceGetPcieReplayCounter", handle), abs=5)


def test_inventory_agrees_with_nvml(handles: Any) -> None:
    library, found = handles
    inventory = nvidia_smi.parse(nvidia_smi.collect(LocalHost(), {}))
    assert {gpu.address for gpu in inventory.gpus} == set(found)
    for gpu in inventory.gpus:
        memory = MemoryInfo()
        assert library.nvmlDeviceGetMemoryInfo(found[gpu.address], ctypes.byref(memory)) == 0
        assert gpu.memory_mib == memory.total // 2**20
