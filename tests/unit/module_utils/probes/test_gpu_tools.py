"""nvidia-smi nvlink and topo, the fabric manager, and nvidia-smi -q as text."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import (
    fabric_manager,
    nvidia_smi,
    nvlink,
    topology,
)

from tests.unit.module_utils.conftest import HEALTHY

TEXT = """
==============NVSMI LOG==============

Timestamp                                 : Fri Jun 21 02:03:08 2024
Driver Version                            : 450.80.02
Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : A100-SXM4-40GB
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Clocks Throttle Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    ECC Errors
        Volatile
            SRAM Correctable              : 1
            SRAM Uncorrectable            : 2
            DRAM Correctable              : 3
            DRAM Uncorrectable            : 4
        Aggregate
            SRAM Correctable              : 5
            SRAM Uncorrectable            : 6
            DRAM Correctable              : 7
            DRAM Uncorrectable            : 8
    Power Readings
        Power Limit                       : 300.00 W
        Default Power Limit               : 400.00 W
        Enforced Power Limit              : 290.00 W
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 42
            Type                          : C
            Name                          : python
            Used GPU Memory               : 512 MiB
GPU 00000000:AB:00.0
    Product Name                          : ERR!
    Processes                             : None
"""


def test_text_of_an_old_driver_gives_the_same_fields():
    first, other = nvidia_smi.parse(Output(TEXT)).gpus
    assert (first.model, first.mig, first.mig_pending) == ("A100-SXM4-40GB", False, False)
    assert first.throttle["hw_thermal_slowdown"] and first.throttle["hw_power_brake_slowdown"] is False
    assert first.volatile == nvidia_smi.Errors(1, 2, 3, 4)
    assert first.aggregate == nvidia_smi.Errors(5, 6, 7, 8)
    assert (first.power_default_watts, first.power_enforced_watts) == (400.0, 290.0)
    assert first.processes == (nvidia_smi.Process("42", "C", "python"),)
    assert (other.model, other.processes, other.ecc) == (None, (), None)


def test_text_and_xml_of_gpus_before_ampere():
    text = """Attached GPUs : 1
GPU 00000000:1B:00.0
    ECC Errors
        Volatile
            Single Bit
                Device Memory : 3
                Total : 9
            Double Bit
                Device Memory : 1
    Retired Pages
        Single Bit ECC : 2
        Double Bit ECC : 1
        Pending : Yes
"""
    (gpu,) = nvidia_smi.parse(Output(text)).gpus
    assert (gpu.volatile.dram_correctable, gpu.volatile.dram_uncorrectable) == (3, 1)
    assert gpu.retired_pages == nvidia_smi.RetiredPages(2, 1, True)


@pytest.mark.parametrize("heading", ["        Volatile\n", "        Aggregate\n", "    ECC Errors\n"])
def test_lost_heading_leaves_what_stood_below_it_unread(heading):
    (gpu, _) = nvidia_smi.parse(Output(TEXT.replace(heading, ""))).gpus
    assert None in (gpu.volatile.sram_uncorrectable, gpu.aggregate.sram_uncorrectable)


def test_field_given_twice_with_two_values_is_unread():
    line = "            SRAM Uncorrectable            : 2\n"
    (gpu, _) = nvidia_smi.parse(Output(TEXT.replace(line, line + line.replace("2", "0")))).gpus
    assert gpu.volatile.sram_uncorrectable is None


def test_line_cut_off_in_its_number_is_unread():
    at = TEXT.index("AB:00.0") + len("AB:00.0\n")
    text = TEXT[:at] + "    PCI\n        Replays Since Reset : 10001\n"
    assert nvidia_smi.parse(Output(text)).gpus[1].pcie.replays == 10001
    assert nvidia_smi.parse(Output(text[:-2])).gpus[1].pcie.replays is None


def test_processes_cut_off_after_their_heading_are_unread():
    text = TEXT.replace("    Processes                             : None\n", "    Processes\n")
    assert nvidia_smi.parse(Output(text)).gpus[1].processes is None


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "\x00\xff\n", "GPU\n", "Attached GPUs : \n"])
def test_other_text_is_unreadable(text):
    with pytest.raises(Unreadable):
        nvidia_smi.parse(Output(text))


def test_text_with_fewer_gpus_than_it_counts_is_unreadable():
    with pytest.raises(Unreadable, match="says 2 of attached GPUs and describes 1"):
        nvidia_smi.parse(Output(TEXT.replace("GPU 00000000:AB:00.0\n", "")))


def test_healthy_nvlinks():
    gpus = nvlink.parse(Output((HEALTHY / "nvlink.txt").read_text()))
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert all(gpu.speeds == dict.fromkeys(range(18), 26.562) and not gpu.said for gpu in gpus)


def test_nvlinks_that_are_down_or_not_readable():
    text = "GPU 0: A (UUID: GPU-1)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n\t Link 2: ERR!\n"
    (gpu,) = nvlink.parse(Output(text))
    assert gpu.speeds == {0: 25.0, 1: 0.0, 2: None}


def test_nvlinks_keep_their_gpus_numbers_where_a_lost_one_is_left_out():
    text = "GPU 0: A (UUID: GPU-1)\n\t Link 0: 25 GB/s\nGPU 2: A (UUID: GPU-3)\n\t Link 0: 25 GB/s\n"
    assert [(gpu.index, gpu.uuid) for gpu in nvlink.parse(Output(text))] == [(0, "GPU-1"), (2, "GPU-3")]


def test_recorded_nvlinks_under_mig_are_said_and_not_counted(recorded):
    (gpu,) = nvlink.parse(Output(recorded("nvidia-smi/nvlink-status-h100-mig.txt")))
    assert gpu.speeds == {} and "MIG" in gpu.said


@pytest.mark.parametrize(
    "output",
    [
        Output(""),
        Output("GPU 0: A (UUID: GPU-1)\n", rc=1),
        Output("\t Link 0: 25 GB/s\n"),
        Output("GPU 0: A (UUID: GPU-1)\n Link 0: 25 GB/s\n Link 0: 25 GB/s\n"),
        Output("GPU 1: A (UUID: GPU-1)\n Link 0: 25 GB/s\nGPU 0: A (UUID: GPU-2)\n Link 0: 25 GB/s\n"),
        Output("GPU 1: A (UUID: GPU-1)\n Link 0: 25 GB/s\nGPU 1: A (UUID: GPU-2)\n Link 0: 25 GB/s\n"),
    ],
)
def test_wrong_nvlink_status_is_unreadable(output):
    with pytest.raises(Unreadable):
        nvlink.parse(output)


def test_healthy_topology():
    found = topology.parse(Output((HEALTHY / "topology.txt").read_text()))
    assert found.nics == tuple(f"mlx5_{number}" for number in range(8))
    assert [row.numa_node for row in found.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found.gpus[4].cpus == "48-95,144-191"
    assert found.gpus[4].nics["mlx5_4"] == "PIX" and set(found.gpus[4].gpus.values()) == {"NV18"}


def test_topology_of_an_old_driver_names_the_nics_in_the_heading():
    text = "\tGPU0\tmlx5_0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-15\tN/A\nmlx5_0\tPIX\t X \t\t\n"
    (row,) = topology.parse(Output(text)).gpus
    assert (row.nics, row.cpus, row.numa_node) == ({"mlx5_0": "PIX"}, "0-15", None)
    (row,) = topology.parse(Output(text.replace("mlx5_0", "rocep26s0"))).gpus
    assert row.nics == {"rocep26s0": "PIX"}


def test_topology_keeps_its_gpus_numbers_where_a_lost_one_is_left_out():
    text = "\tGPU0\tGPU2\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-15\t0\nGPU2\tNV18\t X \t0-15\t0\n"
    assert [(row.index, row.gpus) for row in topology.parse(Output(text)).gpus] == [(0, {2: "NV18"}), (2, {0: "NV18"})]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text.replace("GPU3", "GPU9"),
        lambda text: text.replace("GPU0", "CPU0"),
        lambda text: text.replace("CPU Affinity", "x", 1),
        lambda text: text.replace("\nGPU3", "\nGPU2", 1),
        lambda text: text.replace("\nGPU7\t", "\nGPU8\t", 1),
        lambda text: text.replace(" X \tNV18", "NV18\t X ", 1),
        lambda text: text.replace("NV18", "SYS", 1),
        lambda text: text.replace("NIC1: mlx5_1", "NIC1: mlx5_0", 1),
        lambda text: text[: text.index("GPU5\tNV18")],
    ],
)
def test_wrong_topology_is_unreadable(change):
    with pytest.raises(Unreadable):
        topology.parse(Output(change((HEALTHY / "topology.txt").read_text())))


def test_topology_cut_off_anywhere_gives_no_other_connection():
    text = (HEALTHY / "topology.txt").read_text()
    whole = topology.parse(Output(text))
    for length in range(0, len(text), 7):
        try:
            found = topology.parse(Output(text[:length]))
        except Unreadable:
            continue
        for row, right in zip(found.gpus, whole.gpus, strict=True):
            assert row.gpus == right.gpus
            pairs = zip(row.nics.values(), right.nics.values(), strict=True)
            assert all(kind == full or kind not in ("PIX", "PXB", "PHB", "NODE", "SYS") for kind, full in pairs)


def test_healthy_fabric_manager():
    found = fabric_manager.parse(Output((HEALTHY / "fabric_manager.txt").read_text()))
    assert (found.load, found.active, found.sub, found.version) == ("loaded", "active", "running", "570.86.15")


def test_fabric_manager_without_a_program_has_no_version():
    service = blocks.split((HEALTHY / "fabric_manager.txt").read_text())["service"]
    missing = Output(rc=None, error="nv-fabricmanager: not found")
    found = fabric_manager.parse(blocks.joined({"service": service, "version": missing}))
    assert (found.active, found.version) == ("active", None)


@pytest.mark.parametrize(
    "service",
    [
        Output("Failed to connect to bus", rc=1),
        Output(""),
        Output("LoadState=loaded\nActiveState=active\n"),
        Output(rc=None, error="systemctl: not found"),
    ],
)
def test_systemd_that_does_not_tell_is_unreadable(service):
    with pytest.raises(Unreadable):
        fabric_manager.parse(blocks.joined({"service": service, "version": Output("")}))
