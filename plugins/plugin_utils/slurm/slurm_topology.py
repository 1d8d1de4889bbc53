"""Slurm's topology.conf from pods and racks: a tree of switches, or blocks of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import fold

ROOT = "fabric"


class Member(NamedTuple):
    """One compute node as Slurm knows it, with its place."""

    name: str
    address: str
    hardware_class: str
    pod: str | None
    rack: str | None


def tree_lines(members: Sequence[Member], leaves_limit: int) -> list[str]:
    """Return the lines of topology/tree: a leaf for each rack, above it one switch for each pod, a root above several.

    With more racks than ``leaves_limit`` pods are the leaves. No line where there is but one leaf.
    """
    leaves = _leaves(members)
    if len(leaves) > leaves_limit and any(member.pod for member in members):
        leaves = _leaves([member._replace(rack=None) for member in members])
    if len(leaves) < 2:
        return []
    names = _Names()
    named = {place: names.of(_name(place)) for place in leaves}
    lines = [f"SwitchName={named[place]} Nodes={fold(nodes)}" for place, nodes in leaves.items()]
    below_root: list[str] = []
    by_pod: dict[str, list[str]] = {}
    for (pod, rack), name in named.items():
        # A leaf that is a pod itself, or that lies in none, hangs below the root.
        if pod is None or (rack is None and len([place for place in named if place[0] == pod]) == 1):
            below_root.append(name)
        else:
            by_pod.setdefault(pod, []).append(name)
    for pod, children in by_pod.items():
        top = names.of(pod)
        lines.append(f"SwitchName={top} Switches={fold(children)}")
        below_root.append(top)
    if len(below_root) > 1:
        lines.append(f"SwitchName={names.of(ROOT)} Switches={fold(below_root)}")
    return lines


def block_lines(members: Sequence[Member], sizes: bool) -> list[str]:
    """Return the lines of topology/block: a block for each rack; none where there is but one.

    ``sizes`` says whether the release has BlockSizes: the smallest block, and the pod where all hold the same number of
    blocks and that is a power of two, as Slurm asks for.
    """
    leaves = _leaves(members)
    if len(leaves) < 2:
        return []
    names = _Names()
    lines = [f"BlockName={names.of(_name(place))} Nodes={fold(nodes)}" for place, nodes in leaves.items()]
    if sizes:
        base = min(len(nodes) for nodes in leaves.values())
        in_pods = _in_pods(leaves)
        lines.append(f"BlockSizes={base}" + (f",{base * in_pods}" if in_pods > 1 else ""))
    return lines


_Place = tuple[str | None, str | None]


def _leaves(members: Iterable[Member]) -> dict[_Place, list[str]]:
    leaves: dict[_Place, list[str]] = {}
    for member in members:
        leaves.setdefault((member.pod, member.rack), []).append(member.name)
    return leaves


def _name(place: _Place) -> str:
    pod, rack = place
    # Every node has to be below some switch, those without a rack too.
    return rack or pod or "unplaced"


def _in_pods(leaves: Mapping[_Place, Sequence[str]]) -> int:
    """Return how many blocks each pod holds if all hold as many and it is a power of two, else 1."""
    counts: dict[str | None, int] = {}
    for pod, _rack in leaves:
        counts[pod] = counts.get(pod, 0) + 1
    each = next(iter(counts.values()))
    same = None not in counts and len(counts) > 1 and len(set(counts.values())) == 1
    return each if same and each & (each - 1) == 0 else 1


class _Names:
    """Names of switches: a rack and a pod of one name are two switches."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, name: str) -> str:
        while name in self._taken:
            name += ".above"
        self._taken.add(name)
        return name
