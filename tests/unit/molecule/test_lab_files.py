"""The files that a lab host shows below its root."""

from __future__ import annotations

import re
from pathlib import Path

import lab_files
import pytest
from lab_state import declared


def test_meminfo_shows_the_memory_of_the_state_in_the_layout_of_the_kernel() -> None:
    lines = lab_files.files_of(declared("gpu-01", None, {"memory_mib": 2048}))["proc/meminfo"].splitlines()
    assert lines[:2] == ["MemTotal:        2097152 kB", "MemFree:         2034237 kB"]
    real = Path("/proc/meminfo").read_text(encoding="utf-8")
    read = ("MemTotal", "MemFree", "SwapTotal", "SwapFree")
    assert [re.sub(r"\d", " ", line) for line in lines if line.startswith(read)] == [
        re.sub(r"\d", " ", line) for line in real.splitlines() if line.startswith(read)
    ]


def test_a_file_that_a_new_state_lacks_vanishes_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_files, "files_of", dict)
    lab_files.write_files(tmp_path, {"sys/class/a/x": "1\n", "sys/class/b/x": "2\n"})
    own = tmp_path / "root" / "proc" / "boot_id"
    own.parent.mkdir(parents=True)
    own.write_text("written by the host\n", encoding="ascii")
    lab_files.write_files(tmp_path, {"sys/class/b/x": "3\n"})
    assert (tmp_path / "root/sys/class/b/x").read_text(encoding="ascii") == "3\n"
    assert not (tmp_path / "root/sys/class/a").exists()
    assert own.exists()


def nic_files(recorded: Path) -> set[str]:
    """Return the files of one InfiniBand port and device that a recorded host has, below the device."""
    text = (recorded / "ib" / "sysfs-class-infiniband-h100.txt").read_text(encoding="utf-8")
    return set(re.findall(r"^==> mlx5_0/(.+) <==$", text, re.MULTILINE))


def test_nic_has_the_files_of_a_recorded_one(recorded: Path) -> None:
    base = "sys/class/infiniband/mlx5_0/"
    files = {path.removeprefix(base) for path in lab_files.files_of(declared("gpu-01", None, {})) if base in path}
    # The record is of an InfiniBand port, which counts no congestion notifications and whose GIDs nobody needed.
    cnps = ("ports/1/hw_counters/np_", "ports/1/hw_counters/rp_")
    others = ("device/", "ports/1/gid", "tc/", "node_guid", *cnps)
    assert {path for path in files if not path.startswith(others)} == nic_files(recorded)


def test_nic_faults_show_in_every_place() -> None:
    faults = {
        "nics_missing": ["mlx5_0"],
        "nics_down": ["mlx5_1"],
        "nic_values": {"mlx5_2": {"net/mtu": 1500, "ports/1/counters/link_downed": 255, "mlxlink/Bin 15": 1}},
    }
    files = lab_files.files_of(declared("gpu-01", None, faults))
    assert not [path for path in files if "mlx5_0/" in path or "/rdma0/" in path]
    assert files["sys/class/infiniband/mlx5_1/ports/1/state"] == "1: DOWN\n"
    assert files["sys/class/net/rdma1/operstate"] == "down\n"
    assert files["sys/class/infiniband/mlx5_2/ports/1/counters/link_downed"] == "255\n"
    assert files["sys/class/net/rdma2/mtu"] == files["sys/class/infiniband/mlx5_2/device/net/rdma2/mtu"] == "1500\n"


def test_nic_file_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nic_values\.mlx5_0: found ports/9/state, expected a file"):
        lab_files.files_of(declared("gpu-01", None, {"nic_values": {"mlx5_0": {"ports/9/state": "x"}}}))
