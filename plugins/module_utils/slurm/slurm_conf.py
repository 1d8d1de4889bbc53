"""What a slurm.conf says, and what it takes to go from one set of files to another."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..host.host_lists import HostListError, expand
from ..words.errors import MusterError
from .slurm_trial import SLURM_CONF

NOTHING, RECONFIGURE, RESTART = "nothing", "reconfigure", "restart"
# What takes effect by a restart alone (slurm.conf(5) of 22.05); all else by scontrol reconfigure, which leaves RPCs
# unbroken.
RESTART_KEYS = {
    "accountingstorageenforce",
    "accountingstoragehost",
    "accountingstorageport",
    "accountingstoragetres",
    "accountingstoragetype",
    "authaltparameters",
    "authalttypes",
    "authinfo",
    "authtype",
    "credtype",
    "grestypes",
    "jobacctgathertype",
    "jobcontainertype",
    "maxjobcount",
    "maxnodecount",
    "nodename",
    "plugindir",
    "prepplugins",
    "prologflags",
    "proctracktype",
    "schedulertype",
    "selecttype",
    "selecttypeparameters",
    "slurmctldhost",
    "slurmctldparameters",
    "slurmctldport",
    "slurmdport",
    "slurmuser",
    "statesavelocation",
    "switchtype",
    "taskplugin",
    "topologyplugin",
}
# Files of which slurmctld keeps what it read at its start.
RESTART_FILES = frozenset({"topology.conf", "gres.conf", "plugstack.conf"})
# Removing more of a cluster than this share, and at least two nodes, is more likely a broken fleet file than meant.
REMOVAL_LIMIT_PERCENT = 20
# Begins a comment that Slurm sends to every node with the rest of its file: nodes and addresses, as in a line of nodes.
SOCKETS = "# Sockets of collectives: "


class ConfigurationError(MusterError):
    """Why the configuration is not as wanted; ``result`` holds what was done before."""

    def __init__(self, message: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = dict(result or {})


def keys_of(text: str) -> dict[str, list[str]]:
    """Return the lines of a slurm.conf by the lower case of their first key, without comments, in order."""
    keys: dict[str, list[str]] = {}
    for line in text.splitlines():
        bare = line.partition("#")[0].strip()
        if bare:
            keys.setdefault(re.split(r"[=\s]", bare)[0].lower(), []).append(bare)
    return keys


def values_of(text: str, key: str) -> list[str]:
    """Return the first word of each value of a key."""
    lines = keys_of(text).get(key.lower(), [])
    return [match.group(1) for line in lines if (match := re.match(r"\w+\s*=\s*(\S+)", line))]


def controllers_of(text: str) -> list[str]:
    """Return the names of the controllers, the leading one first."""
    return [value.partition("(")[0] for value in values_of(text, "SlurmctldHost")]


def own_name(text: str, host_name: str) -> str:
    """Return the name of the controller that a host is; raises ConfigurationError where it is none."""
    names = controllers_of(text)
    for name in names:
        if name in (host_name, host_name.partition(".")[0]):
            return name
    raise ConfigurationError(
        f"slurm.conf names the controllers {', '.join(names) or 'nothing'}, this host calls itself {host_name}; "
        "nothing was changed"
    )


def addresses_of(text: str) -> list[str]:
    """Return what slurmctld looks up: of nodes (their names, where they have no address), controllers and database.

    Raises ConfigurationError for a host list that cannot be read.
    """
    found = [value.partition("(")[2].rstrip(")") or value for value in values_of(text, "SlurmctldHost")]
    found += values_of(text, "AccountingStorageHost")
    for line in keys_of(text).get("nodename", []):
        words = dict(word.partition("=")[::2] for word in line.split())
        address = words.get("NodeAddr", words["NodeName"])
        if words["NodeName"] != "DEFAULT":
            try:
                found += expand(address)
            except HostListError as exc:
                raise ConfigurationError(f"{SLURM_CONF}: NodeAddr: {exc}") from exc
    return found


def node_addresses(text: str) -> dict[str, list[str]]:
    """Return the addresses of each node: NodeAddr, and where the sockets of its collectives are if elsewhere.

    Raises ConfigurationError for lists that cannot be read, or are of different lengths.
    """
    found: dict[str, list[str]] = {}
    sockets = [line[len(SOCKETS) :] for line in text.splitlines() if line.startswith(SOCKETS)]
    for line in [*keys_of(text).get("nodename", []), *sockets]:
        words = dict(word.partition("=")[::2] for word in line.split())
        try:
            names, addresses = expand(words["NodeName"]), expand(words.get("NodeAddr", ""))
        except (HostListError, KeyError) as exc:
            raise ConfigurationError(f"{SLURM_CONF}: {line[:80]!r}: {exc}") from exc
        if addresses and len(names) != len(addresses):
            raise ConfigurationError(f"{SLURM_CONF}: {len(names)} nodes with {len(addresses)} addresses: {line[:80]!r}")
        for name, address in zip(names, addresses):
            found.setdefault(name, []).append(address)
    return found


def nodes_of(text: str) -> list[str]:
    """Return the names of the declared nodes; raises ConfigurationError for a host list that cannot be read."""
    try:
        return [name for value in values_of(text, "NodeName") if value != "DEFAULT" for name in expand(value)]
    except HostListError as exc:
        raise ConfigurationError(f"{SLURM_CONF}: NodeName: {exc}") from exc


def action_for(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> str:
    """Return what makes the difference between two sets of files take effect."""
    changed = {name for name in {*before, *after} if _bare(before.get(name)) != _bare(after.get(name))}
    old, new = (keys_of(files.get(SLURM_CONF) or "") for files in (before, after))
    keys = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    if keys & RESTART_KEYS or changed & RESTART_FILES:
        return RESTART
    return RECONFIGURE if changed else NOTHING


def mass_removal(before: Collection[str], gone: Collection[str]) -> str:
    """Return why so many nodes cannot go at once, nothing where they can."""
    if len(gone) < 2 or len(gone) * 100 <= len(before) * REMOVAL_LIMIT_PERCENT:
        return ""
    return f"{len(gone)} of {len(before)} nodes, more than {REMOVAL_LIMIT_PERCENT} %"


def _bare(text: str | None) -> list[str] | None:
    """Return a file's lines without comments that nobody reads."""
    if text is None:
        return None
    bare = (line if line.startswith(SOCKETS) else line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in bare if line]
