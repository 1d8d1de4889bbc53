"""The file of user partitions that slurm.conf includes: rendered from a ledger, and read again."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..host.host_lists import HostListError, expand, fold, in_order
from .scontrol_output import SlurmGateError

GATE_FILE = "/etc/slurm/muster_partitions.conf"
# What a file says that no ledger has rendered yet.
NO_LEDGER = "none"

_HEADER = re.compile(r"# muster ledger (\S+) generation (\d+)")
_NAME = re.compile(r"[A-Za-z0-9_.:-]+")


@dataclass(frozen=True)
class Partition:
    """One user partition; ``nodes`` are those that passed, ``parameters`` are slurm.conf keys such as ``MaxTime``."""

    name: str
    default: bool = False
    nodes: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_params(cls, data: Mapping[str, Any]) -> Partition:
        """Return the partition of a module's parameters; raises SlurmGateError where Slurm would misread it."""
        parameters = {str(key): _value(value) for key, value in (data.get("parameters") or {}).items()}
        taken = {"PartitionName", "Nodes", "Default", "Include"}
        for key, value in parameters.items():
            if key.title() in {name.title() for name in taken} or not key.isalnum() or re.search(r"[\s#]", value):
                raise SlurmGateError(f"partition {data['name']}: parameter {key}={value!r} cannot be set there")
        nodes = tuple(in_order(set(data.get("nodes") or ())))
        for name in (data["name"], *nodes):
            if not _NAME.fullmatch(name):
                raise SlurmGateError(f"partition {data['name']}: {name!r} is not a name, expected {_NAME.pattern}")
        return cls(data["name"], bool(data.get("default")), nodes, tuple(sorted(parameters.items())))

    def open_for(self, nodes: Collection[str]) -> Partition:
        """Return the partition with those of its nodes that are in ``nodes``."""
        return replace(self, nodes=tuple(name for name in self.nodes if name in nodes))


@dataclass(frozen=True)
class GateFile:
    """The included file of user partitions, and the ledger it was rendered from."""

    ledger_id: str
    generation: int
    partitions: tuple[Partition, ...] = ()

    @property
    def nodes(self) -> dict[str, frozenset[str]]:
        """The open nodes by partition."""
        return {partition.name: frozenset(partition.nodes) for partition in self.partitions}

    def without(self, names: Collection[str]) -> GateFile:
        """Return the file with these nodes in no partition."""
        kept = tuple(each.open_for(set(each.nodes) - set(names)) for each in self.partitions)
        return replace(self, partitions=kept)

    def render(self) -> str:
        """Return the file's text; ``parse_gate_file`` reads it back."""
        lines = [
            f"# muster ledger {self.ledger_id} generation {self.generation}",
            "# Rendered by muster.cluster.slurm_gate: it lists the admitted nodes only, and edits are lost.",
        ]
        for partition in self.partitions:
            # Slurm takes a partition without Nodes as one without nodes: jobs wait.
            nodes = f" Nodes={fold(partition.nodes)}" if partition.nodes else ""
            parameters = "".join(f" {key}={value}" for key, value in partition.parameters)
            default = "YES" if partition.default else "NO"
            lines.append(f"PartitionName={partition.name} Default={default}{nodes}{parameters}")
        return "\n".join(lines) + "\n"


def parse_gate_file(text: str) -> GateFile:
    """Return what the partition file says; raises SlurmGateError where it is not one that Muster wrote."""
    first, _newline, rest = text.partition("\n")
    match = _HEADER.fullmatch(first)
    if not match:
        raise SlurmGateError(f"first line is {first[:80]!r}, expected '# muster ledger <id> generation <number>'")
    partitions = []
    for number, line in enumerate(rest.splitlines(), start=2):
        if not line.strip() or line.startswith("#"):
            continue
        pairs = [word.partition("=")[::2] for word in line.split()]
        keys = dict(pairs)
        if pairs[0][0] != "PartitionName" or not all(value for _key, value in pairs) or "Default" not in keys:
            raise SlurmGateError(f"line {number} is {line[:80]!r}, expected 'PartitionName=... Default=...'")
        own = ("PartitionName", "Default", "Nodes")
        parameters = tuple(sorted((key, value) for key, value in pairs if key not in own))
        try:
            nodes = tuple(expand(keys.get("Nodes", "")))
        except HostListError as exc:
            raise SlurmGateError(f"line {number}: {exc}") from exc
        partitions.append(Partition(keys["PartitionName"], keys["Default"] == "YES", nodes, parameters))
    return GateFile(match.group(1), int(match.group(2)), tuple(partitions))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value)
