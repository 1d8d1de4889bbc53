"""A tool is known by its text alone: what our probes collect, and what people save of the same tools."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES, STRESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.recognised import TOOLS, tool_of, tools_by_probe
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_text import pieces_of, text_of

from tests.unit.plugin_utils.command.test_dispatch import HEALTHY

# Outputs without a form of their own, which --probe names: a bare number or name, files that only our probe lists.
BARE = {
    *("boot_id", "boot_loader", "boot_time", "clocksource", "cmdline", "enroot", "heartbeat", "hostname", "ipmi_lan"),
    *("machine_id", "mounts", "nccl", "nvlsm", "nvswitch_nics", "perftest", "preflights", "pytorch", "rdma_core"),
    *("rdma_modules", "roce_port", "slurmd", "ssh_host_keys", "uname"),
}
# Probes that ask less of a tool than another one, whose checks say all that such an output tells.
SAME_TOOL = {
    "cables": "mlxlink",
    "error_counters": "infiniband",
    "infiniband_ports": "infiniband",
    "kernel_ring": "kernel_log",
    "local_drives": "smartctl",
    "redfish_manager": "redfish",
}
FILES = sorted(path for path in HEALTHY.iterdir() if path.stem not in BARE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_output_of_a_probe_is_that_probe_s(path) -> None:
    pieces = pieces_of(text_of(path.read_bytes()))
    tools = [tool_of(piece.text) for piece in pieces]
    assert [tool and tool.probe for tool in tools] == [SAME_TOOL.get(path.stem, path.stem)]


def test_probes_whose_outputs_nobody_knows_are_listed() -> None:
    assert {*PROBES, *STRESSES} - set(tools_by_probe()) <= BARE | set(SAME_TOOL)
    assert set(tools_by_probe()) <= {*PROBES, *STRESSES}


def test_tool_has_one_reader() -> None:
    for tool in TOOLS:
        assert not (tool.probe and tool.findings), tool.name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nvidia-smi -q", "==============NVSMI LOG==============\n\nTimestamp  : Mon Mar  3\nDriver Version : 570\n"),
        ("nvidia-smi -q", "GPU 00000000:19:00.0\n    ECC Mode\n        Current : Enabled\n"),
        ("nvidia-smi", "Unable to determine the device handle for GPU0000:19:00.0: Unknown Error\n"),
        ("nvidia-smi --query-gpu", "index, pci.bus_id, ecc.errors.uncorrected.volatile.sram\n0, 00000000:19:00.0, 0\n"),
        ("nvidia-smi nvlink", "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n"),
        ("nvidia-smi --query-gpu", "index, ecc.errors.uncorrected.volatile.total, remapped_rows.pending\n0, 0, No\n"),
        ("nvidia-smi nvlink -e", "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n"),
        ("dcgmi health", "| Health Monitor Report      |\n| Overall Health      | Healthy  |\n"),
        ("nvme smart-log", "Smart Log for NVME device:nvme0 namespace-id:ffffffff\ncritical_warning\t: 0\n"),
        ("nvme smart-log", '{"critical_warning":0,"temperature":309,"avail_spare":100}\n'),
        ("nvidia-smi topo", "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-51\t0\n"),
        ("dcgmi diag", "| Diagnostic                | Result    |\n|-----  Metadata  --------+-----|\n"),
        ("dcgmi diag", '{"DCGM Diagnostic": {"test_categories": []}}\n'),
        ("nvbandwidth", "nvbandwidth Version: v0.8\nRunning host_to_device_memcpy_ce.\n"),
        (
            "the kernel's log",
            "[Mon Mar  3 10:00:00 2025] NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.\n",
        ),
        ("the kernel's log", "<4>[   12.345678] nvme nvme0: I/O timeout\n"),
        ("the kernel's log", "[May19 19:57] CMCI storm detected\n[  +0.000127] mce: [Hardware Error]: x\n"),
        ("the kernel's log", "[  +0.000844] nvidia 0000:03:00.0: AER: can't recover\n"),
        (
            "the kernel's log",
            "gpu-01 login: x\nBUG: kernel NULL pointer dereference, address: 0\nOops: 0000 [#1] SMP\n",
        ),
        ("gpu-burn", "30.0%  proc'd: -1 (0 Gflop/s)   errors: -5  (DIED!)  temps: 30 C\n"),
        ("smartctl", "SMART/Health Information (NVMe Log 0x02)\nCritical Warning:     0x04\n"),
        ("smartctl", "/dev/nvme0n1\nCritical Warning:     0x00\nMedia and Data Integrity Errors:  160\n"),
        ("ipmitool sel", "   1 |  Pre-Init  |0000198492| Critical Interrupt #0xa1 | Bus Fatal Error | Asserted\n"),
        ("the kernel's log", "kern  :warn  : [   12.345678] mce: [Hardware Error]: Machine check\n"),
        ("the kernel's log", "Mar  3 10:00:00 gpu-01 kernel: NVRM: Xid (PCI:0000:19:00): 79\n"),
        ("journalctl -o json", '{"PRIORITY":"3","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"NVRM: Xid"}\n'),
        ("systemctl", "  slurmd.service loaded failed failed Slurm node daemon\n"),
        ("a system log", "Mar  3 10:00:00 gpu-01 systemd[1]: Started x.\nMar  3 10:00:01 gpu-01 sshd[3]: x\n"),
        ("InfiniBand state", "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n"),
        ("InfiniBand state", "Infiniband device 'mlx5_0' port 1 status:\n\tdefault gid:\t fe80::1\n"),
        ("mlxlink", "\nOperational Info\n----------------\nState                           : Active\n"),
        ("smartctl", "smartctl 7.3 2022-02-28 r5338 [x86_64-linux]\nCopyright\n\n"),
        ("smartctl", "=== START OF READ SMART DATA SECTION ===\nSMART overall-health: PASSED\n"),
        ("smartctl", "=== START OF SMART DATA SECTION ===\nSMART overall-health self-assessment test result: PASSED\n"),
        ("ipmitool sel", "   1 | 03/03/25 | 10:00:00 UTC | Memory #0x87 | Uncorrectable ECC | Asserted\n"),
        ("ipmitool sel", "SEL has no entries\n"),
        ("ipmitool sdr", "Inlet Temp       | 21h | ok  |  7.1 | 24 degrees C\n"),
        ("lspci", "0000:19:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"),
        ("dmidecode", "# dmidecode 3.3\nHandle 0x1100, DMI type 17, 92 bytes\nMemory Device\n"),
        ("lscpu", "Architecture:            x86_64\nCPU(s):                  192\n"),
        ("chronyc tracking", "Reference ID    : C0A80001 (ntp1)\nStratum         : 3\n"),
        ("stress-ng", "stress-ng: info:  [4242] dispatching hogs: 96 cpu\n"),
        ("Redfish", '{"@odata.type": "#LogEntryCollection.LogEntryCollection", "Members": []}\n'),
        ("the fabric manager's log", "[Mar  3 2025 10:00:00] [INFO] [tid 1] Fabric Manager version 570\n"),
        ("ethtool, mlnx_qos, show_gids or ip -j", "Settings for eth0:\n\tSpeed: 100000Mb/s\n"),
        ("nccl-tests", "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor)\n"),
        ("mdadm", "Personalities : [raid1]\nmd0 : active raid1 sda1[0] sdb1[1]\n      100 blocks [2/2] [UU]\n"),
    ],
)
def test_text_that_people_save_is_known(name: str, text: str) -> None:
    tool = tool_of(text)
    assert tool and tool.name == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # A log in which NCCL's lines stand between those of nccl-tests; a kernel's log that quotes another tool.
        ("nccl-tests", "# nThread 1 nGpus 8\ngpu-01:1:1 [0] NCCL INFO Bootstrap : Using eth0\n"),
        ("the kernel's log", "[   12.345678] Fabric Manager version is 1\n[   12.345679] smartctl 7.3\n"),
        ("smartctl", '{"smartctl": {}, "lldp": 1}\n'),
    ],
)
def test_the_more_specific_of_two_tools_is_the_one(name: str, text: str) -> None:
    tool = tool_of(text)
    assert tool and tool.name == name


@pytest.mark.parametrize(
    "text",
    [
        "hello\n",
        "{}\n",
        "[]\n",
        '{"a": {"lldp": {}}}\n',
        "<html></html>\n",
        "a, b\n1, 2\n",
        "| a | b |\n",
        "\x00\x01\x02",
    ],
)
def test_any_other_text_is_nobody_s(text: str) -> None:
    assert tool_of(text) is None
