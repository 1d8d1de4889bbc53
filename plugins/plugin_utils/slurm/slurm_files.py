"""Slurm's files from the declared fleet: the same on every controller, from which all other hosts fetch them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import fold
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_conf import SOCKETS
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import (
    ACCEPTANCE_PARTITION,
    BLOCK,
    CGROUP_TRACKING,
    MUSTER,
    NONE,
    TREE,
    Scheduler,
    defaults,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.generic_resources import (
    Gpus,
    generic_resources,
    gpus_of,
    slurm_gpus,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_hardware import PROCESSORS, hardware_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.slurm_versions import has_key
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_gres import gpu_lines
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_topology import Member, block_lines, tree_lines

# What the user partitions are in; muster.cluster.slurm_gate renders it. A bare name, so that other hosts find it among
# the files that they fetched.
GATE_FILE = "muster_partitions.conf"
# The key by which slurmrestd's tokens are signed.
JWT_KEY = "/etc/slurm/jwt_hs256.key"
_HEAD = "# Written by Muster from the fleet file; edits are lost.\n"


@dataclass(frozen=True)
class Cluster:
    """What Slurm's files are made from; hosts are name and address, the leading controller first.

    ``hardware`` has keys of NodeName lines by class, ``sockets`` the addresses of nodes whose collectives open their
    sockets on a rail, ``releases`` every release that reads the files.
    """

    name: str
    controllers: tuple[tuple[str, str], ...]
    database: str | None
    members: tuple[Member, ...]
    gpus: Mapping[str, Gpus]
    hardware: Mapping[str, Mapping[str, int]]
    sockets: Mapping[str, str]
    scheduler: Scheduler
    releases: tuple[str, ...]

    def all_have(self, file: str, key: str) -> bool:
        """Return whether all releases know a key: one that does not refuses the whole file."""
        return all(has_key(release, file, key) for release in self.releases)


def cluster_of(fleet: Fleet) -> Cluster:
    """Return what a fleet says of Slurm."""
    services, addresses = fleet.services, fleet.addresses
    return Cluster(
        name=fleet.cluster,
        controllers=tuple((name, addresses[name]) for name in services.controllers),
        database=addresses[services.database] if services.database else None,
        members=tuple(
            Member(name, node.address, str(node.hardware_class), node.pod, node.rack)
            for name, node in fleet.compute.items()
        ),
        gpus={name: gpus_of(expect) for name, expect in fleet.classes.items() if expect.gpu},
        hardware={name: hardware_of(expect) for name, expect in fleet.classes.items()},
        sockets=_sockets(fleet),
        scheduler=fleet.scheduler,
        releases=fleet.slurm_releases,
    )


def _sockets(fleet: Fleet) -> dict[str, str]:
    return {
        name: rail.address.partition("/")[0]
        for name, node in fleet.compute.items()
        for rail in node.rails
        if rail.address and rail.name == fleet.fabric.socket_interface
    }


def files_of(cluster: Cluster) -> dict[str, str]:
    """Return the text of each file by its name in the controllers' /etc/slurm.

    Where there is nothing to say in a file, it is not among them. The file of user partitions, which slurm.conf
    includes at its end, is the gate's.
    """
    topology = _topology(cluster)
    gres = _gres_lines(cluster)
    containers = cluster.scheduler.containers
    texts = {
        "slurm.conf": "\n".join(_slurm_lines(cluster, bool(topology))),
        "cgroup.conf": "\n".join(settings_lines(_merged(defaults()["cgroup_conf"], cluster.scheduler.cgroup))),
        "gres.conf": "\n".join(gres),
        "topology.conf": "\n".join(topology),
        "plugstack.conf": f"required {containers.plugin}" if containers else "",
    }
    return {name: f"{_HEAD}{text}\n" for name, text in texts.items() if text}


def check_processors(cluster: Cluster) -> None:
    """Raise FleetError where Slurm would be told of no processors of a class: it takes such a node for one of them."""
    for name in members_by_class(cluster):
        if not _processors(_node_parameters(cluster, name))[0]:
            expected = (
                "CPUs, or Sockets, CoresPerSocket and ThreadsPerCore, as the class does not count them (cpu.cores)"
            )
            raise FleetError("fleet file", f"scheduler.node_parameters.{name}", "no processors", expected)


def _slurm_lines(cluster: Cluster, placed: bool) -> list[str]:
    return [
        f"ClusterName={cluster.name}",
        *(f"SlurmctldHost={name}({address})" for name, address in cluster.controllers),
        "",
        *settings_lines(_slurm_settings(cluster, placed)),
        "",
        *_node_lines(cluster),
        *muster_lines(cluster),
    ]


def muster_lines(cluster: Cluster) -> list[str]:
    """Return the last lines of slurm.conf: sockets of rounds, Muster's partition, and the gate's file."""
    everyone = fold(member.name for member in cluster.members)
    return [
        *_socket_lines(cluster),
        "",
        "# Where Muster tests nodes that users do not see yet.",
        f"PartitionName={ACCEPTANCE_PARTITION} Nodes={everyone} AllowGroups={MUSTER} Hidden=YES OverSubscribe=EXCLUSIVE"
        " Default=NO State=UP",
        "",
        f"Include {GATE_FILE}",
    ]


def _slurm_settings(cluster: Cluster, placed: bool) -> dict[str, Any]:
    """Return the keys of slurm.conf, but for hosts, nodes and partitions."""
    scheduler, known = cluster.scheduler, defaults()
    sized = [each for each in known["sized"] if len(cluster.members) >= each["nodes"]][-1]
    settings: dict[str, Any] = {
        **known["slurm_conf"],
        **{key: value for key, value in sized.items() if key != "nodes"},
        "StateSaveLocation": scheduler.state_directory,
        "TreeWidth": tree_width(len(cluster.members)),
        **hook_settings(cluster),
        **_accounting(cluster),
    }
    if placed:
        settings["TopologyPlugin"] = f"topology/{scheduler.topology}"
    if (memory := _memory_per_cpu(cluster)) is not None:
        settings["DefMemPerCPU"] = memory
    if names := _gres_names(cluster):
        settings["GresTypes"] = ",".join(names)
        # Without slurmdbd slurmctld refuses to start on it.
        if "gpu" in names and (scheduler.accounting or scheduler.parameter("AccountingStorageType")):
            settings["AccountingStorageTRES"] = "gres/gpu"
    if scheduler.rest:
        settings |= {"AuthAltTypes": "auth/jwt", "AuthAltParameters": f"jwt_key={JWT_KEY}"}
    merged = _merged(settings, scheduler.parameters)
    cgroups = merged.get("ProctrackType") == CGROUP_TRACKING
    late: dict[str, Any] = {
        # Contain makes the step whose cgroup logins by ssh go into; it needs cgroups to hold them.
        "PrologFlags": "Alloc,Contain" if cgroups else "Alloc",
        "UnkillableStepTimeout": max(
            settings["UnkillableStepTimeout"],
            known["unkillable_per_message"] * int(merged.get("MessageTimeout") or settings["MessageTimeout"]),
        ),
    }
    if scheduler.accounting:
        late["JobAcctGatherType"] = "jobacct_gather/cgroup" if cgroups else "jobacct_gather/linux"
    return _merged({**settings, **late}, scheduler.parameters)


def tree_width(nodes: int) -> int:
    """Return to how many nodes each slurmd forwards a message in a cluster of so many."""
    known = defaults()["tree_width"]
    root = math.sqrt(nodes) if nodes <= known["square_root"] else nodes ** (1 / 3)
    # Cube roots of whole cubes come out a little above or below.
    return max(int(known["least"]), math.ceil(root - 1e-9))


def hook_settings(cluster: Cluster) -> dict[str, Any]:
    """Return the keys of slurm.conf by which slurmd runs Muster's programs."""
    hooks, known = cluster.scheduler.hooks, defaults()["hooks"]
    settings: dict[str, Any] = {}
    if hooks.health:
        settings |= {
            "HealthCheckProgram": known["health"],
            "HealthCheckInterval": known["health_interval"],
            "HealthCheckNodeState": known["health_node_state"],
        }
    # Every release knows the older key.
    both = cluster.all_have("slurm.conf", "PrologTimeout")
    for key in ("prolog", "epilog"):
        if getattr(hooks, key):
            settings[key.title()] = known[key]
            settings[f"{key.title()}Timeout" if both else "PrologEpilogTimeout"] = known["timeout"]
    return settings


def _accounting(cluster: Cluster) -> dict[str, Any]:
    accounting = cluster.scheduler.accounting
    if accounting is None:
        return {}
    settings: dict[str, Any] = {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        # By address: a name that does not resolve stalls slurmctld at every start.
        "AccountingStorageHost": cluster.database,
    }
    if accounting.enforce:
        settings["AccountingStorageEnforce"] = ",".join(accounting.enforce)
    return settings


def _node_lines(cluster: Cluster) -> list[str]:
    lines = []
    for name, members in members_by_class(cluster).items():
        line = {
            "NodeName": fold(member.name for member in members),
            "NodeAddr": fold(member.address for member in members),
            **dict(sorted(_node_parameters(cluster, name).items(), key=lambda item: item[0].lower())),
        }
        line.setdefault("State", "UNKNOWN")
        lines.append(" ".join(f"{key}={value}" for key, value in line.items()))
    return lines


def _socket_lines(cluster: Cluster) -> list[str]:
    """Return the comments by which nodes know the addresses that a round's nodes have beside Slurm's."""
    if not cluster.sockets:
        return []
    return [f"{SOCKETS}NodeName={fold(cluster.sockets)} NodeAddr={fold(cluster.sockets.values())}"]


def _node_parameters(cluster: Cluster, hardware_class: str) -> dict[str, Any]:
    resources = ",".join(resources_of(cluster, hardware_class))
    own = cluster.scheduler.node_parameters.get(hardware_class, {})
    made: dict[str, Any] = dict(cluster.hardware[hardware_class])
    if any(key.lower() in PROCESSORS for key in own):
        # One key of the site's own would contradict those of the class.
        made = {key: value for key, value in made.items() if key.lower() not in PROCESSORS}
    if resources:
        made["Gres"] = resources
    return _merged(made, own)


def _memory_per_cpu(cluster: Cluster) -> int | None:
    """Return the MiB that a job gets with each CPU if it names no memory: what a node of every class has for each.

    Without it such a job takes all memory of its node, and so the whole node. None where the site says it by another
    key, or a class declares no size; whether a declared one is a number slurmctld tells.
    """
    if any(cluster.scheduler.parameter(key) is not None for key in ("DefMemPerNode", "DefMemPerGPU")):
        return None
    shares = []
    for name in members_by_class(cluster):
        parameters = _node_parameters(cluster, name)
        memory, (cpus, _) = _number(parameters, "RealMemory"), _processors(parameters)
        if memory is None or not cpus:
            return None
        shares.append(memory // cpus)
    return min(shares, default=None)


def _processors(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Return CPUs and cores of a NodeName line; each is 0 where the line does not say."""
    sockets = _number(parameters, "Sockets") or (_number(parameters, "SocketsPerBoard") or 0) * (
        _number(parameters, "Boards") or 1
    )
    cores = sockets * (_number(parameters, "CoresPerSocket") or 0)
    cpus = _number(parameters, "CPUs")
    return cores * (_number(parameters, "ThreadsPerCore") or 1) if cpus is None else cpus, cores


def _number(parameters: Mapping[str, Any], key: str) -> int | None:
    """Return a number of a NodeName line; None where it has none."""
    text = next((str(value) for name, value in parameters.items() if name.lower() == key.lower()), "")
    return int(text) if text.isdecimal() else None


def members_by_class(cluster: Cluster) -> dict[str, list[Member]]:
    """Return the compute nodes of each hardware class by its name."""
    classes: dict[str, list[Member]] = {}
    for member in cluster.members:
        classes.setdefault(member.hardware_class, []).append(member)
    return dict(sorted(classes.items()))


def resources_of(cluster: Cluster, hardware_class: str) -> list[str]:
    """Return what ``Gres`` says of a class' nodes, such as ``gpu:8``."""
    gpus = cluster.gpus.get(hardware_class)
    return generic_resources(cluster.scheduler, hardware_class, gpus.count if gpus else None)


def _gres_names(cluster: Cluster) -> list[str]:
    return sorted(
        {each.partition(":")[0] for name in members_by_class(cluster) for each in resources_of(cluster, name)}
    )


def _gres_lines(cluster: Cluster) -> list[str]:
    """Return gres.conf's lines for the GPUs; a resource that a site adds needs a gres.conf of its own on its nodes."""
    if cluster.scheduler.gres == NONE:
        return []
    lines = []
    for name, members in members_by_class(cluster).items():
        nodes = f"NodeName={fold(member.name for member in members)}"
        _, cores = _processors(_node_parameters(cluster, name))
        found = gpu_lines(
            cluster.scheduler.gres, slurm_gpus(resources_of(cluster, name)), cluster.gpus.get(name), cores
        )
        lines += [f"{nodes} {each}" for each in found]
    return lines


def _topology(cluster: Cluster) -> list[str]:
    scheduler = cluster.scheduler
    if scheduler.topology == TREE:
        return tree_lines(cluster.members, defaults()["topology"]["leaves"])
    if scheduler.topology == BLOCK:
        return block_lines(cluster.members, cluster.all_have("topology.conf", "BlockSizes"))
    return []


def _merged(made: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of ``made`` with those of ``own`` over them, whatever their case; None takes a key out."""
    taken = {key.lower() for key in own}
    merged = {key: value for key, value in made.items() if key.lower() not in taken}
    return merged | {key: value for key, value in own.items() if value is not None}


def settings_lines(settings: Mapping[str, Any]) -> Sequence[str]:
    """Return one line for each key, in the order of their names."""
    return [f"{key}={value}" for key, value in sorted(settings.items(), key=lambda item: item[0].lower())]
