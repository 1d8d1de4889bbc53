"""Small fleets with every part of Slurm, as data."""

import copy
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_files import Cluster, cluster_of, files_of

from tests.placed import PLACED

FILE = "site.fleet.yml"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----\n"
SITE: dict[str, Any] = {
    "plugin": "muster.cluster.fleet",
    "cluster": "east",
    "hosts": [{"name": "ctl", "role": "controller", "address": "10.1.0.10"}],
    "nodes": [
        {
            "name": "gpu-[01-08]",
            "hardware_class": "hgx_h100",
            "address": "10.1.16.1",
            "pods": {"name": "pod-[1-2]", "nodes_each": 4},
            "racks": {"name": "rack-[1-4]", "nodes_each": 2},
        }
    ],
    "hardware_classes": PLACED,
    "fabric": {"kind": "infiniband"},
    "scheduler": {"partitions": [{"name": "batch", "default": True}]},
    "ledger": {"url": "postgresql://db/east", "id": "3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21"},
}
MORE_HOSTS = [
    {"name": "ctl-2", "role": "controller", "address": "10.1.0.11"},
    {"name": "db", "role": "database", "address": "10.1.0.12"},
    {"name": "login-[1-2]", "role": "login", "address": "10.1.0.13"},
]
# Every key of the section.
WHOLE: dict[str, Any] = {
    "partitions": [{"name": "batch", "default": True, "parameters": {"AllowAccounts": "team"}}, {"name": "long"}],
    "parameters": {"SlurmdTimeout": 200, "RebootProgram": None},
    "node_parameters": {"hgx_h100": {"CPUs": 192, "RealMemory": 1900000}},
    "ssh_access": "pam_slurm",
    "cgroup": {"ConstrainSwapSpace": "yes"},
    "version": "24.05",
    "repository": {
        "url": "https://packages.example/slurm",
        "suite": "bookworm",
        "components": ["main"],
        "signing_key": KEY,
    },
    "accounting": {
        "host": "db",
        "enforce": ["associations", "limits"],
        "parameters": {"PurgeJobAfter": "24months"},
        "accounts": [
            {"name": "sub", "parent": "team", "users": ["bob"], "limits": {"GrpTRES": "gres/gpu=64"}},
            {"name": "team", "users": ["ann"]},
        ],
    },
    "state_directory": "/srv/slurm",
    "topology": "block",
    "gres": "nvml",
    "leaving_jobs": "end",
    "rest": {"host": "login-1", "port": 6821},
    "containers": {"packages": ["enroot", "pyxis"], "plugin": "/usr/lib/slurm/spank_pyxis.so"},
    "hooks": {"health": True, "prolog": True, "epilog": False},
    "staff_partitions": ["ops", "burn-in"],
}


def site(scheduler: dict[str, Any] | None = None, hosts: Any = (), **node: Any) -> dict[str, Any]:
    """Return a fleet file's content with keys of its scheduler, more hosts, and other keys of its block of nodes."""
    data = copy.deepcopy(SITE)
    data["scheduler"] |= copy.deepcopy(scheduler or {})
    data["hosts"] += copy.deepcopy(list(hosts))
    data["nodes"][0] |= node
    return data


def variables_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return ``muster_fleet`` of a fleet file's content."""
    fleet = Fleet.from_data(data, FILE)
    return {**fleet.variables(), "nodes": fleet.node_variables()}


def cluster(data: dict[str, Any]) -> Cluster:
    """Return what Slurm's files are made from."""
    return cluster_of(Fleet.from_data(data, FILE))


def files(data: dict[str, Any]) -> dict[str, str]:
    """Return Slurm's files of a fleet file's content."""
    return files_of(cluster(data))


def settings(text: str) -> dict[str, str]:
    """Return the keys of a file of Slurm's that stand on lines of their own."""
    pairs = (line.partition("=")[::2] for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return dict(pairs)


def line_of(text: str, start: str) -> dict[str, str]:
    """Return the words of the line that starts so, by key."""
    line = next(line for line in text.splitlines() if line.startswith(start))
    return dict(word.partition("=")[::2] for word in line.split())
