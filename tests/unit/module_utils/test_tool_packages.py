"""Whatever a probe or stress runs is on a provisioned host, and it is known from where."""

import inspect
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import REBOOTS
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES, STRESSES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import imex, nccl

from tests.typed import RAILS_FABRIC, typed

MOUNT = {
    **{"tier": "scratch", "kind": "local", "path": "/scratch", "filesystem": "xfs", "source": None, "options": []},
    **{"numa_node": None, "stripe_count": None, "write_ms": 100, "free_percent": 5},
}

DEFAULTS = Path(__file__).parents[3] / "roles/host_base/defaults/main.yml"
# Installed by role host_base: package by command.
PACKAGES = {
    "chronyc": "chrony",
    "curl": "curl",
    "dmidecode": "dmidecode",
    "fio": "fio",
    "ipmitool": "ipmitool",
    "lspci": "pciutils",
    "ps": "procps",
    "smartctl": "smartmontools",
    "stress-ng": "stress-ng",
}
# Installed by it too, and run by ``muster nic-load``. Role rdma has none for DOCA-OFED, whose packages are pinned.
BY_MUSTER = {"numactl"}
NVIDIA = {
    "dcgmi": "datacenter-gpu-manager, a package of role gpu_stack",
    "ib_write_bw": "perftest, a package of role rdma; built with CUDA by role gpu_stack",
    "lldpctl": "lldpd, a package of role rdma on RoCE",
    "mstconfig": "mstflint, a package of role rdma; or mlxconfig of MFT",
    "mlxlink": "MFT, with the NICs' drivers; or mstlink of mstflint, a package of role rdma",
    "nv-fabricmanager": "nvidia-fabricmanager, a package of role gpu_stack",
    "nvidia-imex": "nvidia-imex, a package of role gpu_stack",
    "nvidia-imex-ctl": "as above",
    "nvbandwidth": "built from source by role gpu_stack",
    "nvidia-smi": "the driver's own package, by role gpu_stack",
    "smpquery": "infiniband-diags, a package of role rdma on InfiniBand",
}
OURS = {
    "/opt/muster/pytorch/bin/python3": "PyTorch's environment, by role gpu_stack; or pytorch.python of the class",
    "/usr/libexec/muster/muster": "the node program, by role burn_in",
    "enroot": "enroot, by role slurm where containers are declared",
    "scontrol": "Slurm's client, by role slurm",
}
BASE = {
    "/usr/bin/python3": "what Ansible needs",
    "cat": "coreutils, Essential",
    "df": "coreutils, Essential",
    "dmesg": "util-linux, Essential",
    "env": "coreutils, Essential",
    "find": "findutils, Essential",
    "journalctl": "systemd, without which there is no unit to run burn-in",
    "lscpu": "util-linux, Essential",
    "modinfo": "kmod, without which no kernel module is loaded",
    "systemctl": "systemd, as above",
    "tail": "coreutils, Essential",
    "timeout": "coreutils, Essential",
    "uname": "coreutils, Essential",
}
SETTINGS = {"dcgm_diag": {"level": 3}}
REDFISH = {"address": "192.0.2.1", "netrc": "/etc/netrc", "certificate": None, "documents": ["/redfish/v1/Systems/1"]}


def commands_of(argv):
    """Return a command and, behind ``env`` and ``timeout``, the one that it starts."""
    words = list(argv)
    if words[0] == "env":
        rest = words[3:] if words[1] == "-u" else words[1:]
        return [words[0], *commands_of([word for index, word in enumerate(rest) if index or "=" not in word])]
    if words[0] == "timeout":
        return [words[0], *commands_of([word for word in words[1:] if not word.startswith("-")][1:])]
    return [words[0]]


@pytest.fixture
def run_by(fake_host, expect):
    """The commands that each probe and stress runs on a host which has all that a class may declare."""
    fake_host.outputs = defaultdict(Output, fake_host.outputs)
    fake_host.outputs["find"] = Output(f"{nccl.CONF}\n")
    fake_host.outputs["/sys/module/ib_core"] = Output()
    fake_host.outputs["/sys/class/infiniband/mlx5_9/ports/1/link_layer"] = Output("InfiniBand\n")
    fake_host.outputs["/proc/meminfo"] = Output("MemAvailable: 1024000 kB\n")
    expect["nic"]["firmware_settings"] = [{"key": "SRIOV_EN", "wanted": "0"}]
    expect["mounts"] = [MOUNT]
    expect["fabric"] = RAILS_FABRIC
    expect["nvlink"].update(fabric_manager=False, domain={"hosts": 18, "imex": {"nodes": 18, "channels": 1}})
    fake_host.outputs[" ".join(imex.ARGV)] = Output("ActiveState=active\n")
    expect["collective"]["container"] = "/images/pytorch.sqsh"
    redfish = {**expect, "bmc": {**expect["bmc"], "interface": "redfish", "redfish": REDFISH}}

    def commands(collect, *more):
        fake_host.runs.clear()
        for declared in (expect, redfish):
            collect(fake_host, typed(declared), *more)
        return {command for argv in fake_host.runs for command in commands_of(argv)}

    return {
        **{name: commands(probe.collect) for name, probe in PROBES.items()},
        **{
            name: commands(stress.collect, 0.01, stress.SETTINGS(**SETTINGS.get(name, {})))
            for name, stress in STRESSES.items()
        },
    }


@pytest.fixture
def defaults():
    return yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))


def test_every_command_comes_from_a_declared_package_from_nvidia_or_with_the_system(run_by, defaults):
    reboots = {argv[0] for argv in REBOOTS.values()}
    assert set.union(reboots, *run_by.values()) == {*PACKAGES, *NVIDIA, *OURS, *BASE}
    installed = {*defaults["host_base_packages"], *defaults["host_base_test_packages"]}
    assert {*PACKAGES.values(), *BY_MUSTER} <= installed


def test_no_tool_is_installed_that_nothing_runs(defaults):
    assert set(defaults["host_base_test_packages"]) <= {*PACKAGES.values(), *BY_MUSTER}


def test_every_probe_and_stress_that_runs_a_tool_was_seen_to_run_it(run_by):
    modules = {**PROBES, **STRESSES}
    unseen = [name for name in modules if "host.run(" in inspect.getsource(modules[name]) and not run_by[name]]
    assert unseen == []
