"""From states to what the user partitions must list, and the breaker that keeps a mistake from closing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import Partition

# One node may always be closed; a limit in percent says nothing about a partition of two.
NODES_AT_LEAST = 2
ALLOW_SWITCH = "admit_allow_mass_close=true"


def wanted_partitions(
    states: Mapping[str, str], partitions: Sequence[Partition], classes: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Return each user partition with the admitted nodes of its hardware classes (all classes where it names none).

    ``classes`` holds the fleet's compute nodes: a node that is in the ledger alone is in no partition.
    """
    admitted = sorted(name for name in classes if states.get(name) == "admitted")
    return [
        {
            "name": partition.name,
            "default": partition.default,
            "nodes": [
                name
                for name in admitted
                if partition.hardware_classes is None or classes[name] in partition.hardware_classes
            ],
            "parameters": dict(partition.parameters),
        }
        for partition in partitions
    ]


def opened_in(*gates: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return by partition the nodes that are open in any of the gates, such as the file and the running controller."""
    names = {name for gate in gates for name in gate}
    return {name: sorted({node for gate in gates for node in gate.get(name, ())}) for name in sorted(names)}


def only_closing(wanted: Sequence[Mapping[str, Any]], current: Mapping[str, Collection[str]]) -> list[dict[str, Any]]:
    """Return the partitions with those of their wanted nodes that are open already."""
    return [
        {**partition, "nodes": [name for name in partition["nodes"] if name in current.get(partition["name"], ())]}
        for partition in wanted
    ]


def closes_of(wanted: Sequence[Mapping[str, Any]], current: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return by partition the nodes that are open and are not wanted; a partition that is not wanted closes whole."""
    nodes = {partition["name"]: set(partition["nodes"]) for partition in wanted}
    closes = {name: sorted(set(opened) - nodes.get(name, set())) for name, opened in current.items()}
    return {name: closed for name, closed in closes.items() if closed}


def still_open(
    wanted: Sequence[Mapping[str, Any]], current: Mapping[str, Collection[str]], doubtful: Collection[str]
) -> list[dict[str, Any]]:
    """Return the partitions with those of their open nodes that are wanted or doubtful: what stays if others close."""
    return [
        {
            **partition,
            "nodes": [
                name
                for name in sorted(current.get(partition["name"], ()))
                if name in partition["nodes"] or name in doubtful
            ],
        }
        for partition in wanted
    ]


def unconfirmed(
    wanted: Sequence[Mapping[str, Any]], current: Mapping[str, Collection[str]], confirmed: Collection[str]
) -> set[str]:
    """Return the nodes that would be closed somewhere without a reason of their own."""
    return {node for closed in closes_of(wanted, current).values() for node in closed} - set(confirmed)


def mass_close(
    wanted: Sequence[Mapping[str, Any]],
    current: Mapping[str, Collection[str]],
    confirmed: Collection[str],
    limit_percent: float,
) -> str:
    """Return why the unconfirmed nodes must not be closed, or nothing.

    A close is confirmed by a fault measured on the node, an operator's decision, or Slurm's own controller not reaching
    the node either. More than ``limit_percent`` of a partition's open nodes, and at least two, without confirmation
    look like a fault of the network, the ledger or the fleet file rather than of the nodes.
    """
    reasons = []
    for name, closed in closes_of(wanted, current).items():
        doubtful = [node for node in closed if node not in confirmed]
        total = len(set(current[name]))
        if len(doubtful) >= NODES_AT_LEAST and len(doubtful) * 100 > limit_percent * total:
            few = ", ".join(doubtful[:5]) + (", ..." if len(doubtful) > 5 else "")
            reasons.append(
                f"partition {name}: {len(doubtful)} of {total} open nodes would be closed without a fault measured on "
                f"them ({few}), the limit is policy.close_limit_percent {limit_percent:g}"
            )
    if not reasons:
        return ""
    return (
        f"{'; '.join(reasons)}; they stay open and no node was opened. If closing them is meant, run again with "
        f"-e {ALLOW_SWITCH}"
    )
