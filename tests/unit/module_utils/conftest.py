"""What the tests of node code share: a class, a healthy host, recorded files, and PyTorch."""

import copy
import json
import re
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import split
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import clocksource, fabric_manager
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.fake_host import FakeHost
from tests.placed import PLACED

LAB_CODE = Path(__file__).resolve().parents[3] / "molecule" / "lab"
RECORDED = Path(__file__).resolve().parents[4] / "shared" / "recorded"
HEALTHY = Path(__file__).resolve().parents[2] / "healthy"
MODEL = "NVIDIA H100 80GB HBM3"
BOOT = "11111111-2222-3333-4444-555555555555"
HGX = expectations_of("hgx_h100", PLACED, "test")
LAB = expectations_of("lab_h100", {}, "test")
# The shipped class, cut down to two GPUs.
EXPECT = {
    **HGX,
    "class": "test",
    "gpu": {
        **HGX["gpu"],
        "model": MODEL,
        "count": 2,
        "memory_mib": 81559,
        "parts": [
            {**HGX["gpu"]["parts"][0], "slot": "SXM1", "address": "0000:1b:00.0"},
            {**HGX["gpu"]["parts"][5], "slot": "SXM6", "address": "0000:ab:00.0"},
        ],
    },
    "nic": {**HGX["nic"], "mtu_bytes": 9000},
    "memory": {**HGX["memory"], "mib": 1000},
    **{name: LAB[name] for name in ("firmware", "bmc")},
    "tools": {"path": "/usr/bin", "root": "/"},
}


def gpu_xml(addresses, attached=None, model=MODEL, memory="81559 MiB", serial="165{:d}"):
    """Return the report of healthy GPUs at these addresses."""
    text = (HEALTHY / "nvidia_smi.xml").read_text()
    before, gpu, _ = re.split(r"(?s)(\t<gpu id=.*?</gpu>\n)", text, maxsplit=1)
    values = {"product_name": model, "vbios_version": "96.00"}
    gpus = "".join(
        _with_values(
            re.sub(r"(<total>)81559 MiB", rf"\g<1>{memory}", gpu.replace(_ADDRESS.search(gpu)[1], address)),
            {**values, "serial": serial.format(index), "uuid": f"GPU-{index}", "module_id": index},
        )
        for index, address in enumerate(addresses, 1)
    )
    count = len(addresses) if attached is None else attached
    return _with_values(before, {"attached_gpus": count}) + gpus + "</nvidia_smi_log>"


_ADDRESS = re.compile(r'<gpu id="([^"]+)"')


def _with_values(text, values):
    for name, value in values.items():
        text = re.sub(rf"<{name}>.*</{name}>", f"<{name}>{value}</{name}>", text)
    return text


def nvlink_text(count):
    """Return ``nvidia-smi nvlink --status`` of as many healthy GPUs, with the UUIDs of gpu_xml."""
    links = (HEALTHY / "nvlink.txt").read_text().split("GPU 1:")[0].split("\n", 1)[1]
    return "".join(f"GPU {index}: {MODEL} (UUID: GPU-{index + 1})\n{links}" for index in range(count))


TOPOLOGY = """\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPIX\t48-95,144-191\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPIX\tSYS\t X \t\t\t\t

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def dcgmi_outputs(addresses):
    """Return what dcgmi says of healthy GPUs at these addresses, by command."""
    outputs = split((HEALTHY / "dcgmi_nvlink.txt").read_text())
    rows = "".join(
        f"| {number}      | Name: {MODEL} |\n|        | PCI Bus ID: {address} |\n"
        for number, address in enumerate(addresses)
    )
    listing = f"{len(addresses)} GPUs found.\n| GPU ID | Device Information |\n{rows}"
    return {**outputs, "dcgmi discovery -l": Output(listing)}


def healthy(probe):
    """Return what a probe of a healthy host gives."""
    (path,) = HEALTHY.glob(f"{probe}.*")
    return path.read_text()


def lspci():
    """Return the healthy host's devices, the two GPUs of EXPECT at their addresses."""
    text = healthy("lspci")
    for before, after in (("0b", "1b"), ("85", "ab")):
        text = text.replace(f"0000:{before}:00.0", f"0000:{after}:00.0")
        text = text.replace(f"secondary={before}, subordinate={before}", f"secondary={after}, subordinate={after}")
    return text


def _nvml(addresses):
    fields = ("ecc_uncorrected", "remap_pending", "remap_failure", "recovery")
    return json.dumps({"gpus": [{"address": address, **dict.fromkeys(fields, 0)} for address in addresses]}) + "\n"


def healthy_host():
    """Return a host of EXPECT's class on which every tool finds what it should."""
    return FakeHost(
        {
            "nvidia-smi": Output(gpu_xml(["00000000:1B:00.0", "00000000:AB:00.0"])),
            "nvidia-smi nvlink --status": Output(nvlink_text(2)),
            "nvidia-smi topo -m": Output(TOPOLOGY),
            " ".join(fabric_manager.ARGV): split((HEALTHY / "fabric_manager.txt").read_text())["service"],
            "nv-fabricmanager": split((HEALTHY / "fabric_manager.txt").read_text())["version"],
            "/opt/muster/pytorch/bin/python3": Output(healthy("pytorch")),
            "/usr/bin/python3": Output(_nvml(["00000000:1B:00.0", "00000000:AB:00.0"])),
            "tail": Output(healthy("fabric_manager_log")),
            **dcgmi_outputs(["00000000:1B:00.0", "00000000:AB:00.0"]),
            "journalctl": Output("2025-01-21T04:41:44+0000 host kernel: Linux version 6.1.0\n"),
            "lldpctl": Output(healthy("lldp")),
            "lscpu": Output(healthy("lscpu")),
            "lspci": Output(lspci()),
            "dmidecode -t memory": Output(healthy("dmidecode_memory")),
            "/proc/meminfo": Output("MemTotal:       1024000 kB\nMemFree: 1 kB\nSwapTotal: 0 kB\n"),
            "/proc/cpuinfo": Output(healthy("cpuinfo")),
            "/proc/cmdline": Output(healthy("cmdline")),
            "/boot/grub/grub.cfg": Output(healthy("boot_loader")),
            "mstconfig": split((HEALTHY / "nic_config.txt").read_text())["rail0"],
            clocksource.PATH: Output(healthy("clocksource")),
            "/proc/sys/kernel/random/boot_id": Output(BOOT + "\n"),
            "uname": Output("6.1.0\n"),
            "chronyc": Output("C0A80101,ntp,3,1.0,0.000012,0.0,0.0,0.0,0.0,0.0,0.0,0.0,64.0,Normal\n"),
            "df": Output(
                "Filesystem 1-blocks Used Available Capacity Mounted on\n"
                "/dev/vda1 100000000000 1000000000 99000000000 1% /\n"
            ),
            "find": Output(""),
            **split((HEALTHY / "infiniband.txt").read_text()),
            **dict.fromkeys(healthy("rail_names").splitlines(), Output()),
            **split((HEALTHY / "net_devices.txt").read_text()),
            **split(healthy("cpufreq")),
            **split(healthy("numa")),
            **split(healthy("edac")),
            **split(healthy("hugepages")),
            **split((HEALTHY / "nvme_sysfs.txt").read_text()),
            "mlxlink": split((HEALTHY / "mlxlink.txt").read_text())["rail0"],
            "ipmitool sdr elist": Output((HEALTHY / "ipmi_sdr.txt").read_text()),
            "ipmitool mc info": Output((HEALTHY / "ipmi_mc.txt").read_text()),
            **{f"ipmitool {name}": out for name, out in split((HEALTHY / "ipmi_sel.txt").read_text()).items()},
            "ipmitool lan print": Output((HEALTHY / "ipmi_lan.txt").read_text()),
            "dmidecode -t 0,1,2": Output((HEALTHY / "dmidecode.txt").read_text()),
            "uname -n": Output(healthy("hostname")),
            "/etc/machine-id": Output(healthy("machine_id")),
            "/proc/stat": Output(healthy("boot_time")),
            **split(healthy("ssh_host_keys")),
            "ps": split(healthy("slurmd"))["processes"],
            "scontrol": split(healthy("slurmd"))["status"],
            healthy("rdma_core").strip(): Output(),
            # The class' GPUs are at other addresses.
            **split(
                (HEALTHY / "gpu_sysfs.txt")
                .read_text()
                .replace("0000:0b:00.0", "0000:1b:00.0")
                .replace("0000:85:00.0", "0000:ab:00.0")
            ),
            **split(
                healthy("pcie_aer")
                .replace("devices/0000:0b:00.0", "devices/0000:1b:00.0")
                .replace("devices/0000:85:00.0", "devices/0000:ab:00.0")
            ),
            **split((HEALTHY / "preflights.txt").read_text()),
            **split((HEALTHY / "error_counters.txt").read_text()),
            "dmesg": Output((HEALTHY / "kernel_ring.txt").read_text()),
            "smartctl": split((HEALTHY / "smartctl.txt").read_text())["nvme 1"],
        }
    )


@pytest.fixture
def expect():
    return copy.deepcopy(EXPECT)


@pytest.fixture
def fake_host():
    return healthy_host()


@pytest.fixture(scope="session")
def torch():
    """Where PyTorch lies for a process's PYTHONPATH: the lab's, installed when it is missing."""
    sys.path.insert(0, str(LAB_CODE))
    import lab  # noqa: PLC0415 -- found on the path just set

    python = sys.version_info[:2]
    if python not in {system.python for system in lab.SYSTEMS.values()}:
        pytest.skip("no host of the lab has Python {}.{}".format(*python))
    with lab.locked() as lock:
        lab.install_torch(python, lock)
    return lab.torch_packages(python)


@pytest.fixture
def make_gpu_xml():
    return gpu_xml


@pytest.fixture
def recorded():
    def text(name):
        path = RECORDED / name
        if not path.exists():
            pytest.skip(f"recorded output {name} is not beside this checkout (shared/recorded)")
        return path.read_text()

    return text
