"""What scontrol of Slurm 22.05 and later prints of the configuration, and of partitions and nodes as configured.

Where ``scontrol_output`` reads what decides on one node, this reads how Slurm was set up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .scontrol_output import SlurmGateError

_HEAD = "Configuration data as of "
_SETTING = re.compile(r"(\w+(?:\[\d+\])?)\s+= ?(.*)")
# What a node tells of itself stands behind its address (22.05 to 25.11), but for its architecture.
_NODE = re.compile(
    r"NodeName=(\S+) (?:Arch=\S+ )?.*?\sGres=(\S+) NodeAddr=\S+ NodeHostName=\S+(?: +Version=(\S+))?(?: |$)"
)
_GPUS = re.compile(r"(?:^|,)gpu(?::[A-Za-z][\w.-]*)?(?::(\d+))?(?=[,(]|$)")


@dataclass(frozen=True)
class ConfiguredNode:
    """A node as slurmctld has it: how many GPUs it hands out there, and the node's version (``22.05.8``).

    ``version`` is empty until the node has registered. ``trouble`` says why nothing is known.
    """

    gpus: int = 0
    version: str = ""
    trouble: str = ""


def parse_config(text: str) -> dict[str, str]:
    """Return the settings of ``scontrol show config``, without those of plugins; raises SlurmGateError."""
    if not text.startswith(_HEAD):
        raise SlurmGateError(f"scontrol show config: {text[:80]!r}, expected {_HEAD!r}")
    settings: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        # Sections of cgroups and MPI follow, each with a heading.
        if line.endswith(" Configuration:"):
            break
        if match := _SETTING.fullmatch(line):
            settings.setdefault(match.group(1), match.group(2).strip())
    return settings


def parse_partition_words(text: str) -> dict[str, dict[str, str]]:
    """Return the words of each partition of ``scontrol show partition --oneliner``, by name.

    Of a name in two lines nothing is known: its words are empty.
    """
    partitions: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        words = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line))
        if name := words.get("PartitionName"):
            partitions[name] = {} if name in partitions else words
    return partitions


def parse_configured_nodes(text: str) -> dict[str, ConfiguredNode]:
    """Return the nodes of ``scontrol show node --oneliner`` by name.

    What cannot be read of a node, such as one of two lines, is that node's ``trouble`` alone.
    """
    nodes: dict[str, ConfiguredNode] = {}
    for line in text.splitlines():
        if not line.startswith("NodeName="):
            continue
        name = line[len("NodeName=") :].partition(" ")[0]
        match = _NODE.match(line)
        if name in nodes:
            nodes[name] = ConfiguredNode(trouble=f"there are two lines of node {name}")
        elif match is None:
            nodes[name] = ConfiguredNode(trouble=f"{line[:80]!r}, expected Gres=, NodeAddr= and NodeHostName=")
        else:
            nodes[name] = ConfiguredNode(
                sum(int(count or 1) for count in _GPUS.findall(match.group(2))), match.group(3) or ""
            )
    return nodes


def words_of(settings: Mapping[str, str], key: str) -> frozenset[str]:
    """Return the words of a setting that is a list, in lower case; none where it is not set."""
    return frozenset(word for word in settings.get(key, "").lower().split(",") if word not in ("", "(null)", "none"))
