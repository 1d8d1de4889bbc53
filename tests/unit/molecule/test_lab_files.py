"""The files that a lab host shows below its root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lab_files
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import read_names
from lab_state import NIC_BUSES, declared


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


def shown(place: Path, **faults: Any) -> Path:
    """Return the root of a host with these faults."""
    lab_files.write_files(place, declared("gpu-01", None, faults))
    return place / "root"


def test_what_a_role_has_set_stays_until_the_state_shows_something_else(tmp_path: Path) -> None:
    root = shown(tmp_path)
    set_by_role = {
        "sys/devices/system/cpu/cpu191/cpufreq/scaling_governor": "performance\n",
        "sys/class/net/rdma1/ecn/roce_np/cnp_dscp": "26\n",
    }
    governor, dscp = (root / path for path in set_by_role)
    assert (governor.read_text(), dscp.read_text()) == ("schedutil\n", "48\n")
    for path, text in set_by_role.items():
        (root / path).write_text(text)
    shown(tmp_path, swap_mib=8192)
    assert (governor.read_text(), dscp.read_text()) == ("performance\n", "26\n")
    shown(tmp_path, cpu_governor="powersave")
    assert (governor.read_text(), dscp.read_text()) == ("powersave\n", "26\n")


def test_state_that_a_killed_run_left_half_written_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    governor = shown(tmp_path) / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(lab_files, "is_setting", stop)
        shown(tmp_path, cpu_governor="powersave")
    assert governor.read_text() == "schedutil\n"
    shown(tmp_path, cpu_governor="powersave")
    assert governor.read_text() == "powersave\n"


def stop(_: str) -> bool:
    raise KeyboardInterrupt


def test_files_of_a_lab_that_an_older_checkout_has_brought_up_are_known(tmp_path: Path) -> None:
    root = shown(tmp_path)
    written = tmp_path / lab_files.WRITTEN
    gone = "sys/class/gone/x"
    (root / gone).parent.mkdir()
    (root / gone).touch()
    paths = [line.partition("\t")[0] for line in written.read_text().splitlines()]
    written.write_text("\n".join([*paths, gone]))
    shown(tmp_path)
    assert not (root / gone).parent.exists()


def nic_files(recorded: Path) -> set[str]:
    """Return the files of one InfiniBand port and device that a recorded host has, below the device."""
    text = (recorded / "ib" / "sysfs-class-infiniband-h100.txt").read_text(encoding="utf-8")
    return set(re.findall(r"^==> mlx5_0/(.+) <==$", text, re.MULTILINE))


def test_nic_has_the_files_of_a_recorded_one(recorded: Path) -> None:
    base = "sys/class/infiniband/mlx5_0/"
    files = {path.removeprefix(base) for path in lab_files.files_of(declared("gpu-01", None, {})) if base in path}
    # The record is of an InfiniBand port, which counts no congestion notifications and whose GIDs nobody needed.
    cnps = ("ports/1/hw_counters/np_", "ports/1/hw_counters/rp_")
    others = ("device", "ports/1/gid", "tc/", "node_guid", *cnps)
    assert {path for path in files if not path.startswith(others)} == nic_files(recorded)


def test_nic_faults_show_in_every_place(tmp_path: Path) -> None:
    root = shown(
        tmp_path,
        nics_missing=["rail0"],
        nics_down=["rail1"],
        nic_values={"rail2": {"net/mtu": 1500, "ports/1/counters/link_downed": 255, "mlxlink/Bin 15": 1}},
    )
    gone = {"mlx5_0", "rdma0", "0000:1a:00.0"}
    assert not [path for path in root.rglob("*") if gone & set(path.parts)]
    assert (root / "sys/class/infiniband/mlx5_1/ports/1/state").read_text() == "1: DOWN\n"
    assert (root / "sys/class/net/rdma1/operstate").read_text() == "down\n"
    assert (root / "sys/class/infiniband/mlx5_2/ports/1/counters/link_downed").read_text() == "255\n"
    assert (root / "sys/class/net/rdma2/mtu").read_text() == "1500\n"
    assert (root / "sys/class/infiniband/mlx5_2/device/net/rdma2/mtu").read_text() == "1500\n"


def test_nic_file_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nic_values\.rail0: found ports/9/state, expected a file"):
        lab_files.files_of(declared("gpu-01", None, {"nic_values": {"rail0": {"ports/9/state": "x"}}}))


KERNEL = {f"0000:{bus}:00.0": ([f"mlx5_{n}"], [f"rdma{n}"]) for n, bus in enumerate(NIC_BUSES)}
SHIFTED = {f"0000:{bus}:00.0": ([f"mlx5_{n}"], [f"rdma{n}"]) for n, bus in enumerate(("19", *NIC_BUSES))}
BY_BUS = {f"0000:{bus}:00.0": ([f"rocep{int(bus, 16)}s0"], [f"enp{int(bus, 16)}s0np0"]) for bus in ("19", *NIC_BUSES)}


@pytest.mark.parametrize(
    ("faults", "expected"),
    [({}, KERNEL), ({"extra_nic": True}, SHIFTED), ({"extra_nic": True, "persistent_names": True}, BY_BUS)],
)
def test_names_of_nics_are_read_by_their_address(
    tmp_path: Path, faults: dict[str, bool], expected: dict[str, tuple[list[str], list[str]]]
) -> None:
    # What was shown before another boot gave other names is gone.
    shown(tmp_path)
    names = read_names(LocalHost("/bin", str(shown(tmp_path, **faults))))
    assert {address: (found, names.interfaces[address]) for address, found in names.devices.items()} == expected
    assert set(names.interfaces) == set(expected)
