"""How faults of the inventory and of `lab.py state` become what a host shows."""

from __future__ import annotations

import pytest
from lab_state import HEALTHY, StateError, assignments, changed, declared

PARTS = [{"slot": "SXM1", "address": "0000:1B:00.0"}, {"slot": "SXM2", "address": "0000:43:00.0"}]


def test_a_host_without_faults_is_healthy() -> None:
    state = declared("gpu-01", None, {})
    assert not list(changed("gpu-01", state))
    assert [gpu["slot"] for gpu in state["gpus"]] == [f"SXM{slot}" for slot in range(1, 9)]


def test_parts_come_from_the_hardware_class() -> None:
    addresses = [gpu["address"] for gpu in declared("gpu-01", PARTS, {})["gpus"]]
    assert addresses == ["0000:1b:00.0", "0000:43:00.0"]


def test_serials_are_unique_and_stay() -> None:
    gpus = [gpu for host in ("gpu-01", "gpu-02") for gpu in declared(host, None, {})["gpus"]]
    assert len({gpu["serial"] for gpu in gpus}) == len({gpu["uuid"] for gpu in gpus}) == 16
    assert all(len(gpu["serial"]) == 13 and gpu["serial"].isdigit() for gpu in gpus)
    assert gpus[:8] == declared("gpu-01", None, {})["gpus"]


def test_faults_lie_over_the_defaults_and_leave_them_alone() -> None:
    state = declared("gpu-01", None, {"gpus_missing": ["SXM6"]}, network_mbps=200)
    assert dict(changed("gpu-01", state)) == {"gpus_missing": ["SXM6"], "network_mbps": 200}
    state["cpu"]["cores"] = 1
    assert HEALTHY["cpu"]["cores"] == 96


def test_names_of_nics_change_and_come_back_while_the_rails_stay() -> None:
    first = declared("gpu-01", None, {})
    renamed = assignments("gpu-01", first, ["persistent_names=true", "extra_nic=true"], now=5)
    assert [(nic["rail"], nic["device"], nic["interface"]) for nic in renamed["nics"]][7:] == [
        ("rail7", "rocep220s0", "enp220s0np0"),
        ("extra", "rocep25s0", "enp25s0np0"),
    ]
    same = ("rail", "address", "guid", "cable")
    assert [[nic[key] for key in same] for nic in renamed["nics"][:8]] == [
        [nic[key] for key in same] for nic in first["nics"]
    ]
    assert assignments("gpu-01", renamed, ["persistent_names=null", "extra_nic=null"], now=9) == first


def test_null_makes_healthy_again_not_declared_again() -> None:
    state = declared("gpu-01", None, {"gpus_missing": ["SXM6"], "memory_mib": 1000})
    state = assignments("gpu-01", state, ["gpus_missing=null", "memory_mib=null"], now=5)
    assert not list(changed("gpu-01", state))


def test_new_kernel_lines_are_of_now_and_old_ones_keep_their_time() -> None:
    state = assignments("gpu-01", declared("gpu-01", None, {}), ['kernel_log=["a"]'], now=5)
    state = assignments("gpu-01", state, ['kernel_log=["a", "b"]'], now=9)
    assert state["kernel_log"] == [{"seconds": 5, "message": "a"}, {"seconds": 9, "message": "b"}]
    assert assignments("gpu-01", state, ['kernel="6.1"'], now=20)["kernel_log"] == state["kernel_log"]


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"gpu_missing": []}, "unknown state gpu_missing"),
        ({"gpus_missing": ["SXM9"]}, "found SXM9"),
        ({"gpus_lost": ["SXM9"]}, "gpus_lost: found SXM9"),
        ({"gpu_serials": {"1": "x"}}, "found 1"),
        ({"nics_missing": ["rail9"]}, "nics_missing: found rail9"),
        ({"nics_down": ["mlx5_3"]}, "nics_down: found mlx5_3, expected rail0, rail1"),
        ({"nic_values": {"rail9": {}}}, "nic_values: found rail9"),
        ({"nvlinks": {"SXM9": {}}}, "nvlinks: found SXM9"),
        ({"gpu_processes": {"SXM1": [{"pid": 1}]}}, "expected pid, name and memory_mib"),
        ({"fabric_manager": {"active": "active"}}, "expected active, sub, version"),
        ({"nvme_missing": [9]}, "nvme_missing: found 9, expected drives 1 to 8"),
        ({"nvme_smart": {"0": {}}}, "nvme_smart: found 0"),
        ({"firmware": {"bios": "1"}}, "firmware: found bios"),
        ({"bmc_sensors": {"12V": "low"}}, "bmc_sensors.12V: found 'low'"),
        ({"bmc_log": "x"}, "bmc_log: found 'x'"),
        ({"tool_faults": {"lscpu": "slow"}}, "tool_faults.lscpu: found 'slow'"),
        ({"memory_mib": "much"}, "memory_mib: found 'much'"),
        ({"cpu": {"sockets": 2}}, "cpu: found"),
        ({"network_mbps": "fast"}, "network_mbps: found 'fast'"),
        ({"kernel_log": "x"}, "kernel_log: found 'x'"),
        ({"dimms_missing": ["C1"]}, "dimms_missing: found C1"),
        ({"dimm_errors": {"A1": {"ce": 1}}}, "dimm_errors.A1: found"),
        ({"pci_links": {"0000:ff:00.0": {"width": 8}}}, "pci_links: found 0000:ff:00.0"),
        ({"cpu_microcode": {"192": "0x1"}}, "cpu_microcode: found 192"),
        ({"numa_nodes": 0}, "numa_nodes: found 0"),
        ({"hugepages": {"4": 1}}, "hugepages: found 4"),
        ({"swap_mib": "all"}, "swap_mib: found 'all'"),
    ],
)
def test_a_fault_that_cannot_be_simulated_is_refused(faults: dict[str, object], said: str) -> None:
    with pytest.raises(StateError, match=said):
        declared("gpu-01", None, faults)


@pytest.mark.parametrize("text", ["kernel", "kernel=6.1.0", "nothing=1"])
def test_a_wrong_assignment_is_refused(text: str) -> None:
    with pytest.raises(StateError):
        assignments("gpu-01", declared("gpu-01", None, {}), [text], now=0)
