from itertools import product
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import expand
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_conf import node_addresses
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.slurm_versions import lacking, releases
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_files import (
    cluster_of,
    files_of,
    tree_width,
)

from tests.placed import placed

from .clusters import MORE_HOSTS, WHOLE, cluster, files, line_of, settings, site

LAB = "inventory/lab/lab.fleet.yml"


COUNTED = {"hgx_h100": {"cpu": {"cores": 112, "threads_per_core": 2}, "memory": {"mib": 2000000}}}
ALL_OF_IT = {"Sockets": "2", "CoresPerSocket": "56", "ThreadsPerCore": "2", "RealMemory": "1900000"}


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({}, ALL_OF_IT),
        ({"Feature": "h100", "RealMemory": 1000000}, {**ALL_OF_IT, "Feature": "h100", "RealMemory": "1000000"}),
        ({"RealMemory": None}, {key: value for key, value in ALL_OF_IT.items() if key != "RealMemory"}),
        # One key of processors takes the place of all.
        ({"cpus": 96}, {"cpus": "96", "RealMemory": "1900000"}),
        ({"Sockets": 4, "CoresPerSocket": 28}, {"Sockets": "4", "CoresPerSocket": "28", "RealMemory": "1900000"}),
    ],
)
def test_slurm_is_told_the_processors_and_the_memory_of_the_class(own: dict[str, Any], told: dict[str, str]) -> None:
    data = {**site({"node_parameters": {"hgx_h100": own}}), "hardware_classes": placed(COUNTED)}
    line = line_of(files(data)["slurm.conf"], "NodeName=")
    assert {key: line[key] for key in line if key not in ("NodeName", "NodeAddr", "Gres", "State")} == told


def test_all_nodes_are_declared_and_tested_where_no_user_is() -> None:
    text = files(site())["slurm.conf"]
    nodes = line_of(text, "NodeName=")
    assert nodes == {
        "NodeName": "gpu-[01-08]",
        "NodeAddr": "10.1.16.[1-8]",
        "Gres": "gpu:8",
        "RealMemory": "1959850",
        "State": "UNKNOWN",
    }
    acceptance = line_of(text, "PartitionName=")
    assert acceptance["PartitionName"] == "acceptance"
    assert acceptance["Nodes"] == "gpu-[01-08]"
    assert (acceptance["AllowGroups"], acceptance["Hidden"], acceptance["OverSubscribe"]) == (
        "muster",
        "YES",
        "EXCLUSIVE",
    )
    assert text.count("PartitionName=") == 1
    assert text.endswith("\nInclude muster_partitions.conf\n")


def test_nodes_are_told_where_sockets_are_that_do_not_lie_where_slurm_reaches_them() -> None:
    data = site(rails={"addresses": "172.[16-23].0.1/31"})
    assert node_addresses(files(data)["slurm.conf"])["gpu-02"] == ["10.1.16.2"]
    for interface, addresses in (("bond0", ["10.1.16.2"]), ("rail3", ["10.1.16.2", "172.19.0.3"])):
        data["fabric"]["socket_interface"] = interface
        assert node_addresses(files(data)["slurm.conf"])["gpu-02"] == addresses


def test_what_the_gate_and_requeueing_rest_on_is_set() -> None:
    keys = settings(files(site())["slurm.conf"])
    wanted = {
        "EnforcePartLimits": "NO",
        "ReturnToService": "1",
        "JobRequeue": "1",
        "SchedulerParameters": "nohold_on_prolog_fail",
        "SlurmctldParameters": "enable_configless",
        "PropagateResourceLimitsExcept": "MEMLOCK",
        "PrologFlags": "Alloc,Contain",
        "Prolog": "/usr/libexec/muster/prolog",
        "Epilog": "/usr/libexec/muster/epilog",
        "HealthCheckProgram": "/usr/libexec/muster/health",
        "HealthCheckInterval": "300",
        "HealthCheckNodeState": "ANY,CYCLE",
        "GresTypes": "gpu",
        "TopologyPlugin": "topology/tree",
        "StateSaveLocation": "/var/lib/slurm/slurmctld",
        "SlurmctldHost": "ctl(10.1.0.10)",
    }
    assert {key: keys.get(key) for key in wanted} == wanted
    # Without slurmdbd slurmctld would not start on it.
    assert "AccountingStorageTRES" not in keys


def test_site_has_the_last_word_whatever_the_case_and_null_takes_a_key_out() -> None:
    own = {"killwait": 5, "RebootProgram": None, "SelectTypeParameters": "CR_Core"}
    text = files(site({"parameters": own, "cgroup": {"ConstrainDevices": "no", "ConstrainCores": None}}))
    keys = settings(text["slurm.conf"])
    assert (keys["killwait"], keys["SelectTypeParameters"]) == ("5", "CR_Core")
    assert not {"KillWait", "RebootProgram"} & set(keys)
    assert settings(text["cgroup.conf"]) == {"ConstrainDevices": "no", "ConstrainRAMSpace": "yes"}


def test_whole_scheduler_is_in_the_files() -> None:
    text = files(site(WHOLE, MORE_HOSTS))
    keys = settings(text["slurm.conf"])
    hosts = [line for line in text["slurm.conf"].splitlines() if line.startswith("SlurmctldHost=")]
    assert hosts == ["SlurmctldHost=ctl(10.1.0.10)", "SlurmctldHost=ctl-2(10.1.0.11)"]
    wanted = {
        "StateSaveLocation": "/srv/slurm",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "10.1.0.12",
        "AccountingStorageEnforce": "associations,limits",
        "AccountingStorageTRES": "gres/gpu",
        "JobAcctGatherType": "jobacct_gather/cgroup",
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": "jwt_key=/etc/slurm/jwt_hs256.key",
        "TopologyPlugin": "topology/block",
        "SlurmdTimeout": "200",
        "Prolog": "/usr/libexec/muster/prolog",
    }
    assert {key: keys.get(key) for key in wanted} == wanted
    assert not {"Epilog", "EpilogTimeout", "RebootProgram"} & set(keys)
    assert line_of(text["slurm.conf"], "NodeName=")["RealMemory"] == "1900000"
    assert "NodeName=gpu-[01-08] AutoDetect=nvml\n" in text["gres.conf"]
    assert text["topology.conf"].endswith("\nBlockSizes=2,4\n")
    assert text["plugstack.conf"].endswith("\nrequired /usr/lib/slurm/spank_pyxis.so\n")


def test_files_with_nothing_to_say_are_not_there() -> None:
    assert set(files(site({"gres": "none", "topology": "none"}))) == {"slurm.conf", "cgroup.conf"}
    keys = settings(files(site({"gres": "none", "topology": "none"}))["slurm.conf"])
    assert not {"GresTypes", "TopologyPlugin", "AccountingStorageTRES"} & set(keys)


@pytest.mark.parametrize(
    ("size", "parameters", "memory"),
    [
        ({"CPUs": 192, "RealMemory": 1900000}, {}, "9895"),
        ({"cpus": "192", "realmemory": "1900000"}, {}, "9895"),
        ({"RealMemory": 1900000}, {}, None),
        ({"CPUs": 0, "RealMemory": 1900000}, {}, None),
        ({"CPUs": 192, "RealMemory": "much"}, {}, None),
        ({"Sockets": 2, "CoresPerSocket": 48, "ThreadsPerCore": 2, "RealMemory": 1900000}, {}, "9895"),
        ({"Sockets": 2, "CoresPerSocket": 48, "RealMemory": 1900000}, {}, "19791"),
        ({"CoresPerSocket": 48, "RealMemory": 1900000}, {}, None),
        ({"CPUs": 192, "RealMemory": 1900000}, {"defmempercpu": 4000}, None),
        ({"CPUs": 192, "RealMemory": 1900000}, {"DefMemPerGPU": 200000}, None),
    ],
)
def test_a_job_that_names_no_memory_gets_the_share_of_its_cpus(size: Any, parameters: Any, memory: str | None) -> None:
    keys = settings(files(site({"node_parameters": {"hgx_h100": size}, "parameters": parameters}))["slurm.conf"])
    assert keys.get("DefMemPerCPU") == memory


def test_one_rack_needs_no_topology() -> None:
    text = files(site(racks={"name": "r1"}, pods=None))
    assert "topology.conf" not in text
    assert "TopologyPlugin" not in text["slurm.conf"]


@pytest.mark.parametrize(
    ("gres", "line", "types"),
    [
        ({}, "Name=gpu File=/dev/nvidia[0-7] Flags=nvidia_gpu_env", "gpu"),
        ({"Gres": "gpu:h100:8,nic:8"}, "Name=gpu Type=h100 File=/dev/nvidia[0-7] Flags=nvidia_gpu_env", "gpu,nic"),
        ({"gres": "gpu:8(S:0-1)"}, "Name=gpu File=/dev/nvidia[0-7] Flags=nvidia_gpu_env", "gpu"),
    ],
)
def test_gpus_are_named_by_their_device_files(gres: Any, line: str, types: str) -> None:
    text = files(site({"node_parameters": {"hgx_h100": gres}}))
    assert text["gres.conf"].splitlines()[1:] == [f"NodeName=gpu-[01-08] {line}"]
    assert settings(text["slurm.conf"])["GresTypes"] == types


def test_gpus_of_two_types_share_the_device_files() -> None:
    text = files(site({"node_parameters": {"hgx_h100": {"Gres": "gpu:a:3,gpu:b:5"}}}))
    assert [line.split()[1:4] for line in text["gres.conf"].splitlines()[1:]] == [
        ["Name=gpu", "Type=a", "File=/dev/nvidia[0-2]"],
        ["Name=gpu", "Type=b", "File=/dev/nvidia[3-7]"],
    ]


# Slots by NUMA node as the class' addresses have them: device files 0 to 3 lie below 0000:0d, 4 to 7 from 0000:84 on.
NEAR = {"SXM1": 0, "SXM2": 0, "SXM3": 0, "SXM4": 0, "SXM5": 1, "SXM6": 1, "SXM7": 1, "SXM8": 1}
# Device files 0, 1, 2, 3 are those of SXM4, SXM2, SXM1 and SXM3.
MIXED = {**NEAR, "SXM4": 1, "SXM5": 0}
SIZE = {"Sockets": 2, "CoresPerSocket": 48}
FAR = [("[0-3]", " Cores=0-47"), ("[4-7]", " Cores=48-95")]
WHOLE_NODE = [("[0-7]", "")]


@pytest.mark.parametrize(
    ("places", "size", "entries"),
    [
        (NEAR, SIZE, FAR),
        (NEAR, {"boards": 1, "socketsperboard": "2", "corespersocket": "48", "ThreadsPerCore": 2}, FAR),
        (
            MIXED,
            SIZE,
            [
                *(("0", " Cores=48-95"), ("[1-3]", " Cores=0-47"), ("[4-5]", " Cores=48-95")),
                *(("6", " Cores=0-47"), ("7", " Cores=48-95")),
            ],
        ),
        # What is not declared is not guessed.
        (None, SIZE, WHOLE_NODE),
        (NEAR, {"CPUs": 192}, WHOLE_NODE),
        (NEAR, {"Sockets": 1, "CoresPerSocket": 47}, WHOLE_NODE),
        ({**NEAR, "SXM8": 2}, SIZE, WHOLE_NODE),
        ({name: NEAR[name] for name in list(NEAR)[:7]}, SIZE, WHOLE_NODE),
    ],
)
def test_gpus_have_the_cores_of_their_numa_node(places: Any, size: Any, entries: Any) -> None:
    data = site({"node_parameters": {"hgx_h100": size}})
    if places:
        parts = [{"slot": slot, "numa_node": node, "rail": None} for slot, node in places.items()]
        data["hardware_classes"] = placed({"hgx_h100": {"affinity": {"parts": parts}}})
    wanted = [f"NodeName=gpu-[01-08] Name=gpu File=/dev/nvidia{a}{b} Flags=nvidia_gpu_env" for a, b in entries]
    assert files(data)["gres.conf"].splitlines()[1:] == wanted


@pytest.mark.parametrize(("how", "version"), [("nvml", "22.05"), ("nvidia", "24.11"), ("nrt", "23.11")])
def test_slurmd_finds_gpus_by_the_declared_plugin(how: str, version: str) -> None:
    text = files(site({"gres": how, "version": version}))
    assert text["gres.conf"].splitlines()[1:] == [f"NodeName=gpu-[01-08] AutoDetect={how}"]
    assert line_of(text["slurm.conf"], "NodeName=")["Gres"] == "gpu:8"


def test_device_files_lie_below_the_root_of_the_class() -> None:
    data = site(hardware_class="lab_h100", rails=None)
    data["fabric"] = {"kind": "ethernet"}
    assert " File=/opt/lab/root/dev/nvidia[0-7] " in files(data)["gres.conf"]


def test_class_without_gpus_hands_out_none() -> None:
    data = site()
    data["hardware_classes"] = placed({"cpu": {"extends": "hgx_h100", "gpu": None, "nvlink": None}})
    more = {"name": "cpu-[1-2]", "hardware_class": "cpu", "address": "10.1.17.1"}
    data["nodes"].append(more)
    text = files(data)
    assert "Gres" not in line_of(text["slurm.conf"], "NodeName=cpu-[1-2]")
    assert "cpu-" not in text["gres.conf"]
    # All nodes have to be below some switch.
    assert "SwitchName=unplaced Nodes=cpu-[1-2]\n" in text["topology.conf"]


def test_without_cgroups_no_step_contains_the_job() -> None:
    own = {"parameters": {"ProctrackType": "proctrack/linuxproc"}, "ssh_access": "pam_slurm", "accounting": {}}
    keys = settings(files(site(own, MORE_HOSTS[1:]))["slurm.conf"])
    assert (keys["PrologFlags"], keys["JobAcctGatherType"]) == ("Alloc", "jobacct_gather/linux")


@pytest.mark.parametrize(
    ("nodes", "message", "slurmd", "width"),
    [(8, 60, 300, 16), (999, 60, 300, 32), (1000, 100, 300, 32), (3999, 100, 300, 16), (4000, 100, 600, 16)],
)
def test_timeouts_and_tree_grow_with_the_fleet(nodes: int, message: int, slurmd: int, width: int) -> None:
    keys = settings(files(site(name=f"gpu-[1-{nodes}]", pods=None, racks=None))["slurm.conf"])
    assert (keys["MessageTimeout"], keys["SlurmdTimeout"]) == (str(message), str(slurmd))
    assert keys["TreeWidth"] == str(width)
    assert int(keys["UnkillableStepTimeout"]) == max(300, 5 * message)


def test_tree_width_is_a_root_of_the_number_of_nodes() -> None:
    assert [tree_width(nodes) for nodes in (1, 256, 257, 2500, 2501, 8000, 12500)] == [16, 16, 17, 50, 16, 20, 24]


def test_unkillable_step_follows_the_sites_own_message_timeout() -> None:
    assert settings(files(site({"parameters": {"MessageTimeout": 90}}))["slurm.conf"])["UnkillableStepTimeout"] == "450"


# topology/block came with 23.11: declaring it before is an error.
RENDERED = [pair for pair in product(releases(), ("tree", "block", "none")) if pair[1] != "block" or pair[0] >= "23.11"]


@pytest.mark.parametrize(("version", "topology"), RENDERED)
def test_every_release_gets_only_what_it_has(version: str, topology: str) -> None:
    scheduler = {**WHOLE, "version": version, "topology": topology}
    text = files(site(scheduler, MORE_HOSTS))
    lines = {"slurm.conf": settings(text["slurm.conf"]), "cgroup.conf": settings(text["cgroup.conf"])}
    lines["topology.conf"] = settings(text.get("topology.conf", ""))
    lines["node"] = line_of(text["slurm.conf"], "NodeName=")
    lines["partition"] = line_of(text["slurm.conf"], "PartitionName=")
    wrong = [lacking(version, file, key, value) for file, keys in lines.items() for key, value in keys.items()]
    assert not any(wrong)
    assert ("PrologTimeout" in lines["slurm.conf"]) == (version >= "25.05")
    assert ("PrologEpilogTimeout" in lines["slurm.conf"]) == (version < "25.05")
    assert ("BlockSizes" in lines["topology.conf"]) == (topology == "block" and version >= "24.05")


def test_lab_says_what_it_always_said() -> None:
    fleet = Fleet.load(LAB)
    text = files_of(cluster_of(fleet))
    keys = settings(text["slurm.conf"])
    assert (keys["SlurmdTimeout"], keys["KillWait"], keys["MessageTimeout"]) == ("20", "5", "60")
    assert (keys["ProctrackType"], keys["TaskPlugin"], keys["PrologFlags"]) == (
        "proctrack/linuxproc",
        "task/none",
        "Alloc",
    )
    assert settings(text["cgroup.conf"])["CgroupPlugin"] == "cgroup/v1"


def test_12500_nodes_stay_small_through_folding() -> None:
    data = site(
        name="gpu-[00001-12500]",
        pods={"name": "pod-[01-25]", "nodes_each": 500},
        racks={"name": "rack-[0001-1250]", "nodes_each": 10},
    )
    text = files(data)
    assert len(text["slurm.conf"]) < 4096
    assert len(text["topology.conf"]) < 100_000
    assert len(cluster(data).members) == 12500
    leaves = [line for line in text["topology.conf"].splitlines() if " Nodes=" in line]
    below = [name for line in leaves for name in expand(line.partition("Nodes=")[2])]
    assert len(below) == len(set(below)) == 12500
