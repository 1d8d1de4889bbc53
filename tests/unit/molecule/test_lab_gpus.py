"""What the lab can say of a GPU is shown by nvidia-smi, and what its library looks up is what the lab says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import lab_files
import lab_gpus
import nvidia
import pytest
from lab_state import declared

# One GPU for each value, as many as the library has room for.
ROOM = 64
NAMES = list(lab_gpus.HEALTHY)
# nvidia-smi tells these since driver 570 or 580: tests/contracts/test_gpus.py asks one.
LATER = {
    "gpu_recovery_action",
    *(f"ecc_errors/{name}" for name in ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory")),
    "fabric/health_summary",
}


def shown(place: Path, names: list[str]) -> dict[int, bytes]:
    """Return what nvidia-smi 550 tells of each GPU, by its bus; NVML fails at one value of each that is named."""
    parts = [{"slot": f"SXM{bus}", "address": f"0000:{bus:02x}:00.0"} for bus in range(ROOM)]
    values = {f"SXM{bus}": {name: "Unknown Error"} for bus, name in enumerate(names)}
    (place / "gpus").write_text(lab_gpus.text_of(declared("gpu-01", parts, {"gpu_values": values})), encoding="utf-8")
    command, environment = [str(place / "nvidia-smi-550"), "-q", "-x"], {**os.environ, "LD_LIBRARY_PATH": str(place)}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False)
    return {int(gpu.attrib["id"].split(":")[1], 16): ET.tostring(gpu) for gpu in ET.fromstring(done.stdout).iter("gpu")}


def test_every_value_of_a_gpu_is_shown(tmp_path: Path) -> None:
    for made in nvidia.made():
        lab_files.copy(made, tmp_path / made.name)
    healthy, silent = shown(tmp_path, []), set()
    assert len(healthy) == ROOM
    for start in range(0, len(NAMES), ROOM):
        names = NAMES[start : start + ROOM]
        sick = shown(tmp_path, names)
        silent |= {name for bus, name in enumerate(names) if sick.get(bus) == healthy[bus]}
    assert silent == LATER


def test_every_value_that_the_library_looks_up_is_one_of_the_labs() -> None:
    process = {"pid": 42, "name": "python", "memory_mib": 512}
    said = lab_gpus.text_of(declared("gpu-01", None, {"gpu_processes": {"SXM1": [process]}}))
    names = {line.split("\t")[1] for line in said.splitlines()}
    source = (Path(nvidia.HERE) / "nvml.c").read_text(encoding="utf-8")
    code = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    # Paths, whole or up to what is put behind them, and names in the tables of functions.
    paths = set(re.findall(r'"(\w[\w%]*/[\w%/]*)"', code)) | set(re.findall(r'^[A-Z]+\(nvml[\w, ]+"(\w+)"', code, re.M))
    assert len(paths) > 90
    patterns = {path: re.compile(re.sub("%[su]", r"[\\w-]*", path)) for path in paths}
    unknown = {path for path, pattern in patterns.items() if not any(map(pattern.match, names))}
    # An H100 tells nothing of the module's power; "N/A" is a value.
    assert unknown == {"module_power_readings/", "N/A"}


def test_library_is_compiled_again_only_where_its_sources_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, program, target = tmp_path / "lab", tmp_path / "program", tmp_path / "made" / nvidia.LIBRARY
    here.mkdir()
    (here / "nvml.c").write_text("int nvmlNothing;\n", encoding="utf-8")
    (here / "nvidia.py").touch()
    program.write_bytes(b"nvmlDeviceGetNothing")
    monkeypatch.setattr(nvidia, "HERE", here)

    def made() -> tuple[int, int]:
        nvidia.library(target, [program])
        return target.stat().st_ino, target.stat().st_mtime_ns

    first = made()
    assert made() == first
    program.write_bytes(b"nvmlDeviceGetSomething")
    second = made()
    assert second != first and b"nvmlDeviceGetSomething" in target.read_bytes()
    (here / "nvml.c").write_text("int nvmlSomething;\n", encoding="utf-8")
    assert made() != second
