"""What a Slurm that the site sets up itself lacks for the later steps: one question in each function.

Muster's own role writes all of this (plugin_utils/slurm/slurm_files.py). Here it is only asked for. What cannot be read
is lacking.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from .gate_file import parse_gate_file
from .scontrol_output import LivePartition, SlurmGateError
from .site_output import ConfiguredNode, words_of
from .slurm_conf import keys_of, node_addresses
from .slurm_releases import RELEASES, pair_fault

MUSTER = "muster"
ACCEPTANCE = "acceptance"
# Muster's programs on nodes by the key of slurm.conf that runs them, as role slurm installs them.
HOOKS = {
    "health": ("HealthCheckProgram", "/usr/libexec/muster/health"),
    "prolog": ("Prolog", "/usr/libexec/muster/prolog"),
    "epilog": ("Epilog", "/usr/libexec/muster/epilog"),
}
# Prolog and epilog end themselves after 25 s (roles/slurm/files/hooks); what Slurm ends before drains the node.
LEAST_HOOK_SECONDS = 30
# Muster's own (slurm_defaults.yml): a fault is known within it, and policy.heartbeat_seconds counts in it.
HEALTH_SECONDS = 300
# Flags with which the prolog runs on all nodes of a job before it starts (slurm.conf(5), PrologFlags).
_AT_ALLOCATION = frozenset({"alloc", "contain", "runinjob", "x11"})
_HEALTH_STATES = frozenset({"any", "cycle", "start_only"})
# With one of them Slurm asks of each job whose account it is (slurm.conf(5), AccountingStorageEnforce).
_ENFORCED = frozenset({"associations", "limits", "qos", "safe", "all"})
# Keys of a partition that ask for accounts.
_ACCOUNT_KEYS = frozenset({"allowaccounts", "denyaccounts", "allowqos", "denyqos", "qos"})
# As Slurm reads a line: quoted or not, also with an operator (_keyvalue_pattern of parse_config.c).
_PARTITION_LINE = re.compile(r"""PartitionName\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(.*)""", re.IGNORECASE)
_NODES = re.compile(r"\sNodes\s*[-*+/]?=", re.IGNORECASE)
# What partition acceptance says, and why.
_PARTITION = {
    "State": ("UP", "or no round starts"),
    "AllowGroups": (MUSTER, "or users reach nodes that are not proven"),
    "Hidden": ("YES", "as it is not for users"),
    "OverSubscribe": ("EXCLUSIVE", "as a round has its nodes to itself"),
    "Default": ("NO", "or jobs of users wait there for ever"),
    "RootOnly": ("NO", f"as rounds run as user {MUSTER}"),
    "ReqResv": ("NO", "as rounds have no reservation"),
    "AllocNodes": ("ALL", "as rounds start from a controller"),
    "AllowAccounts": ("ALL", f"as rounds run in the account of user {MUSTER}"),
    "AllowQos": ("ALL", "as rounds name no QOS"),
    "MaxTime": ("UNLIMITED", "as each round has a limit of its own"),
    "MaxCPUsPerNode": ("UNLIMITED", "as rounds use whole nodes"),
}


@dataclass(frozen=True)
class Wanted:
    """What the fleet declares of a Slurm that the site sets up.

    ``nodes`` has the number of GPUs that rounds ask Slurm for on each node, ``partitions`` the parameters of each user
    partition by its name, ``hooks`` those of HOOKS that the fleet declares, ``uid`` the number of user muster.
    """

    release: str
    nodes: Mapping[str, int]
    partitions: Mapping[str, Mapping[str, str]]
    hooks: Collection[str]
    state_directory: str
    controllers: int
    pmix: bool
    uid: int


@dataclass(frozen=True)
class Files:
    """slurm.conf and what it includes: each text by its real path, without comments and with lines that go on joined.

    ``own`` is the text of slurm.conf alone, and ``gate`` the real path of the gate's file; both texts are as they lie
    there.
    """

    texts: Mapping[str, str]
    own: str
    gate: str


def release_lacks(settings: Mapping[str, str], wanted: Wanted) -> list[str]:
    """Return that slurmctld is of another release than declared, or of one that Muster does not know."""
    said = settings.get("SLURM_VERSION", "")
    release = release_of(said)
    if release not in RELEASES:
        return [f"release: SLURM_VERSION is {said or 'not told'}, expected one of {', '.join(RELEASES)}"]
    if release != wanted.release:
        return [f"release: slurmctld is {said}, scheduler.version says {wanted.release}: declare {release}"]
    return []


def settings_lack(settings: Mapping[str, str], wanted: Wanted) -> list[str]:
    """Return the settings that would undo the gate, or under which rounds cannot run."""
    return [
        *_one_of(settings, "AuthType", ("auth/munge", "auth/slurm"), "which tell Slurm who a user is"),
        *_one_of(settings, "EnforcePartLimits", ("NO",), "a job waits for nodes that are closed now"),
        *_one_of(settings, "ReturnToService", ("0", "1"), "with 2 a node takes jobs whatever made it reboot"),
        *_one_of(
            settings, "StateSaveLocation", (wanted.state_directory,), "scheduler.state_directory of the fleet file"
        ),
        *_without(settings, "SlurmdParameters", "config_overrides", "a node that lost GPUs has to be noticed"),
        *_without(settings, "PrivateData", "nodes", f"user {MUSTER} has to see the nodes of its rounds"),
    ]


def hooks_lack(settings: Mapping[str, str], hooks: Collection[str]) -> list[str]:
    """Return which of Muster's programs Slurm does not run on nodes, or runs too seldom, too late or too briefly."""
    found = []
    for name in hooks:
        key, program = HOOKS[name]
        named = [value for said, value in settings.items() if said == key or said.startswith(f"{key}[")]
        if not any(_runs(value, program) for value in named):
            found.append(f"{key}: is {_told(', '.join(named))}, expected {program} (or scheduler.hooks.{name}: false)")
    if "health" in hooks:
        found += _health_lacks(settings)
    if "prolog" in hooks and not words_of(settings, "PrologFlags") & _AT_ALLOCATION:
        why = "so that every node of a job is checked before it starts"
        found.append(f"PrologFlags: is {_told(settings.get('PrologFlags'))}, expected Alloc among them, {why}")
    if {"prolog", "epilog"} & set(hooks):
        if "prep/script" not in words_of(settings, "PrEpPlugins"):
            told = _told(settings.get("PrEpPlugins"))
            found.append(f"PrEpPlugins: is {told}, expected prep/script among them, which runs prolog and epilog")
        found += _timeouts_lack(settings)
    return found


def _health_lacks(settings: Mapping[str, str]) -> Iterator[str]:
    said = settings.get("HealthCheckInterval", "")
    seconds = re.fullmatch(r"(\d+) sec", said)
    if not seconds or not 0 < int(seconds.group(1)) <= HEALTH_SECONDS:
        yield f"HealthCheckInterval: is {_told(said)}, expected 1 to {HEALTH_SECONDS} seconds"
    states = words_of(settings, "HealthCheckNodeState")
    if "any" not in states or states - _HEALTH_STATES:
        yield f"HealthCheckNodeState: is {_told(settings.get('HealthCheckNodeState'))}, expected ANY,CYCLE"


def _timeouts_lack(settings: Mapping[str, str]) -> Iterator[str]:
    # 25.05 has one for each; before, there is one for both. 65534 is no limit.
    keys = [key for key in ("PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout") if key in settings]
    if not keys:
        yield "PrologEpilogTimeout: is not told, expected a limit of prolog and epilog"
    for key in keys:
        number = re.fullmatch(r"(\d+)(?: sec)?", settings[key])
        if settings[key].upper() not in ("UNLIMITED", "INFINITE", "(NULL)") and (
            not number or int(number.group(1)) < LEAST_HOOK_SECONDS
        ):
            yield f"{key}: is {_told(settings[key])}, expected at least {LEAST_HOOK_SECONDS} s, or none"


def partition_lacks(words: Mapping[str, str] | None, nodes: int) -> list[str]:
    """Return what is wrong with partition acceptance; ``nodes`` is how many the fleet has."""
    if words is None:
        return [f"partition {ACCEPTANCE}: slurmctld has none, expected one with AllowGroups={MUSTER}"]
    found = [
        f"partition {ACCEPTANCE}: {key} is {_told(words.get(key))}, expected {expected}, {why}"
        for key, (expected, why) in _PARTITION.items()
        if words.get(key) != expected
    ]
    most = words.get("MaxNodes", "")
    if most != "UNLIMITED" and not (most.isdecimal() and int(most) >= nodes):
        found.append(f"partition {ACCEPTANCE}: MaxNodes is {_told(most)}, expected UNLIMITED, or at least {nodes}")
    if words.get("MinNodes") not in ("0", "1"):
        found.append(f"partition {ACCEPTANCE}: MinNodes is {_told(words.get('MinNodes'))}, expected at most 1")
    return found


def gate_lacks(files: Files, live: Collection[str], wanted: Wanted) -> list[str]:
    """Return why user partitions are not those of the gate's file alone; ``live`` are slurmctld's partitions."""
    found = list(_declared_elsewhere(files, wanted))
    if files.gate not in files.texts:
        return [
            *found,
            f"slurm.conf: does not include {files.gate}, expected Include muster_partitions.conf at its end",
        ]
    if wanted.controllers > 1 and not PurePosixPath(files.gate).is_relative_to(wanted.state_directory):
        where = f"expected it in {wanted.state_directory}, which both controllers mount, and a link to it on both"
        found.append(f"{files.gate}: is on this controller alone, {where}")
    try:
        filed = parse_gate_file(files.texts[files.gate])
    except SlurmGateError as exc:
        return [*found, f"{files.gate}: {exc}"]
    if unknown := sorted(set(filed.nodes) - set(live)):
        names = ", ".join(unknown)
        found.append(f"{files.gate}: has partition {names}, slurmctld has not: run scontrol reconfigure")
    return found


def _declared_elsewhere(files: Files, wanted: Wanted) -> Iterator[str]:
    for path, text in files.texts.items():
        if path == files.gate:
            continue
        for line in (line for lines in keys_of(text).values() for line in lines):
            match = _PARTITION_LINE.match(line)
            name = (match.group(1) or match.group(2) or "") if match else ""
            if name in wanted.partitions:
                yield f"{path}: declares partition {name}, expected it in {files.gate} alone, which lists proven nodes"
            # A closed partition of the gate names no nodes, and would have these.
            if match and name.upper() == "DEFAULT" and _NODES.search(match.group(3)):
                yield f"{path}: PartitionName=DEFAULT has Nodes, expected none, which every closed partition would have"


def accounts_lack(settings: Mapping[str, str], wanted: Wanted, users: Collection[str] | None) -> list[str]:
    """Return that Muster's jobs have no account, or that nobody checks the accounts of a user partition.

    ``users`` are those with an account; None where they cannot be read.
    """
    if settings.get("AccountingStorageEnforce") is None:
        return ["AccountingStorageEnforce: is not told"]
    found, enforced = [], enforces_accounts(settings)
    asking = [name for name, keys in wanted.partitions.items() if _ACCOUNT_KEYS & {key.lower() for key in keys}]
    if asking and not enforced:
        told, why = _told(settings["AccountingStorageEnforce"]), f"as partition {', '.join(asking)} asks for accounts"
        found.append(f"AccountingStorageEnforce: is {told}, expected associations, {why}")
    if enforced and MUSTER not in (users or ()):
        way = f"expected one (sacctmgr add account {MUSTER}; sacctmgr add user {MUSTER} account={MUSTER})"
        found.append(f"accounts: user {MUSTER} has {'none that can be read' if users is None else 'none'}, {way}")
    return found


def enforces_accounts(settings: Mapping[str, str]) -> bool:
    """Return whether Slurm asks of each job whose account it is."""
    return bool(words_of(settings, "AccountingStorageEnforce") & _ENFORCED)


def pmix_lacks(plugins: Collection[str], wanted: Wanted) -> list[str]:
    """Return that Slurm has no PMIx where a hardware class needs it; ``plugins`` are names of files in PluginDir."""
    if not wanted.pmix or any(fnmatchcase(name, "mpi_pmix*.so") for name in plugins):
        return []
    return ["PMIx: PluginDir has no mpi_pmix*.so, expected it, as a class has collective.driver nccl_tests"]


def user_lacks(uid: int | None, wanted: Wanted) -> list[str]:
    """Return that the controller's user muster has another number than that of the nodes; None is no such user."""
    if uid == wanted.uid:
        return []
    found = "no such user" if uid is None else f"uid {uid}"
    return [f"user {MUSTER}: {found} on this controller, expected uid {wanted.uid} (host_base_muster_uid)"]


def nodes_lack(
    seen: Mapping[str, ConfiguredNode], partition: LivePartition | None, release: str, wanted: Wanted
) -> dict[str, list[str]]:
    """Return by declared node what slurmctld lacks for it alone; ``release`` is slurmctld's."""
    lacking = {
        name: [*_node_lacks(seen.get(name), gpus, release), *_unlisted(name, partition)]
        for name, gpus in wanted.nodes.items()
    }
    return {name: found for name, found in lacking.items() if found}


def addresses_lack(files: Files, wanted: Wanted) -> dict[str, list[str]]:
    """Return the declared nodes whose addresses Muster's prolog would not find, by which it knows a round's nodes.

    It reads the node's own slurm.conf, and nothing that this includes. Raises ConfigurationError.
    """
    if "prolog" not in wanted.hooks:
        return {}
    known = node_addresses(files.own)
    why = "expected one in slurm.conf itself: by it the prolog knows the nodes of a round"
    return {name: [f"NodeAddr: none, {why}"] for name in wanted.nodes if not known.get(name)}


def _node_lacks(node: ConfiguredNode | None, gpus: int, release: str) -> Iterator[str]:
    if node is None:
        yield "slurmctld does not know the node, expected a NodeName line in slurm.conf"
    elif node.trouble:
        yield f"scontrol show node: {node.trouble}"
    else:
        if gpus and node.gpus != gpus:
            yield f"Gres has {node.gpus} GPUs, expected gpu:{gpus}, all of the class (or scheduler.gres: none)"
        # Of a node that has not registered yet Slurm tells none.
        if node.version and (fault := pair_fault(release, release_of(node.version) or node.version)):
            yield fault


def _unlisted(name: str, partition: LivePartition | None) -> Iterator[str]:
    if partition is None:
        return
    if partition.trouble:
        yield f"partition {ACCEPTANCE}: {partition.trouble}"
    elif name not in partition.nodes:
        yield f"partition {ACCEPTANCE} does not list the node"


def release_of(version: str) -> str:
    """Return the release of a version, ``22.05`` of ``22.05.8``; nothing where it is none."""
    match = re.match(r"(\d\d\.\d\d)(?:[.-]|$)", version)
    return match.group(1) if match else ""


def _runs(value: str, program: str) -> bool:
    """Return whether a value names the program, itself or by a pattern of glob(7), whose ``*`` matches no slash."""
    parts, wanted = value.split("/"), program.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, wanted, parts))


def _one_of(settings: Mapping[str, str], key: str, good: Sequence[str], why: str) -> Iterator[str]:
    if settings.get(key) not in good:
        yield f"{key}: is {_told(settings.get(key))}, expected {' or '.join(good)}: {why}"


def _without(settings: Mapping[str, str], key: str, word: str, why: str) -> Iterator[str]:
    if key not in settings or word in words_of(settings, key):
        yield f"{key}: is {_told(settings.get(key))}, expected no {word}: {why}"


def _told(value: str | None) -> str:
    return value or "not told"
