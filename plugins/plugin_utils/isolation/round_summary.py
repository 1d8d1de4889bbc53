"""What operators are shown of a round while a campaign runs, and what each node's evidence keeps of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    UNIT,
    Settings,
    size_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Judged, judged_groups, possible
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Matrix, Seen, matrix_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import medians_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.mini_cluster import (
    parts_by_size as mini_cluster_parts,
)

# More jobs than this are only counted, those that did not come to their end by name.
NAMED_JOBS = 4


def round_summary(number: int, plan: Mapping[str, Any], items: Sequence[Mapping[str, Any]], settings: Settings) -> str:
    """Return a round in one line: what came of its jobs, the slowest pair, the worst group of each level."""
    nodes = [str(node) for job in plan.get("groups", ()) for node in job]
    seen = [(number, plan, item) for item in items]
    matrix = _matrix(nodes, seen, settings)
    parts = [f"{len(nodes)} nodes"] if len(items) == 1 else [f"{len(items)} jobs"]
    parts += _pair_parts(matrix)
    for level in dict.fromkeys(group.level for group in _groups(matrix, settings)):
        parts.append(_level_part(level, [each for each in _groups(matrix, settings) if each.level == level]))
    parts += mini_cluster_parts(matrix, settings.ranks_per_node)
    for halt in matrix.halts[:NAMED_JOBS]:
        who = ", ".join(sorted(halt.suspects)[:NAMED_JOBS]) or ("+".join(halt.group) if len(halt.group) < 3 else "")
        parts.append(halt.error + (f" (suspected: {who})" if who else ""))
    if len(matrix.halts) > NAMED_JOBS:
        parts.append(f"{len(matrix.halts)} jobs did not come to their end")
    if matrix.wrong:
        parts.append(
            f"wrong data received by {', '.join(sorted({wrong.receiver for wrong in matrix.wrong})[:NAMED_JOBS])}"
        )
    if matrix.unreadable:
        node, why = next(iter(matrix.unreadable.items()))
        parts.append(f"{len(matrix.unreadable)} nodes cannot be read, {node}: {why}")
    return "; ".join(parts)


def _matrix(nodes: Sequence[str], seen: Seen, settings: Settings) -> Matrix:
    return possible(matrix_of(nodes, seen, settings.pairs.sizes_bytes, settings.ranks_per_node, spread=False), settings)


def _groups(matrix: Matrix, settings: Settings) -> list[Judged]:
    return [*judged_groups(matrix, settings, "inside"), *judged_groups(matrix, settings, "groups")]


def _pair_parts(matrix: Matrix) -> list[str]:
    parts = []
    for at, size in enumerate(matrix.sizes):
        speeds = matrix.exchanges.gb[:, at].min(axis=1)
        rows = np.flatnonzero(~np.isnan(speeds))
        if not len(rows):
            continue
        slowest = rows[np.argmin(speeds[rows])]
        pair = f"{matrix.nodes[matrix.exchanges.one[slowest]]}+{matrix.nodes[matrix.exchanges.other[slowest]]}"
        parts.append(
            f"{len(rows)} exchanges of {size_text(size)}: median {np.median(speeds[rows]):.3g} {UNIT}, "
            f"slowest {pair} {speeds[slowest]:.3g}"
        )
    return parts


def _level_part(level: str, groups: Sequence[Judged]) -> str:
    worst = max(groups, key=lambda group: (group.bad, group.slowdown))
    bad = sum(group.bad or group.doubtful for group in groups)
    said = f"{bad} of {len(groups)} bad, " if bad else ""
    part = worst.worst()
    return f"{level}: {said}{part.text if part else 'nothing measured'}"


def details(members: Iterable[str], seen: Seen, settings: Settings) -> Mapping[str, Mapping[str, Any]]:
    """Return what each node's evidence keeps: its rounds, its exchanges by size in short, its groups, its versions.

    ``pairs`` has by size the median over the exchanges in GB/s of the slowest rail, the slowest one and with whom.
    """
    names = sorted(set(members))
    nodes = sorted(
        {str(node) for _number, plan, _item in seen for job in plan.get("groups", ()) for node in job} | {*names}
    )
    matrix = _matrix(nodes, seen, settings)
    found: dict[str, dict[str, Any]] = {
        node: {"rounds": [], "pairs": {}, "groups": [], "versions": {}} for node in names
    }
    for number, plan, item in seen:
        for node in item.get("group") or ():
            if node in found:
                found[node]["rounds"].append({"number": number, "kind": plan.get("kind"), "ok": item.get("ok") is True})
    _keep_pairs(found, matrix)
    for group in _groups(matrix, settings):
        part = group.worst()
        if part is None:
            continue
        kept = {
            "number": group.number,
            "level": group.level,
            "nodes": len(group.nodes),
            "measured": part.measured,
            "expected": part.expected,
            "unit": part.unit,
            "bad": group.bad,
        }
        for node in group.nodes:
            if node in found:
                found[node]["groups"].append(kept)
    for node, used in versions_of(item for _number, _plan, item in seen).items():
        if node in found:
            found[node]["versions"] = used
    return found


def _keep_pairs(found: Mapping[str, dict[str, Any]], matrix: Matrix) -> None:
    nodes = np.concatenate([matrix.exchanges.one, matrix.exchanges.other])
    others = np.concatenate([matrix.exchanges.other, matrix.exchanges.one])
    order = np.argsort(nodes, kind="stable")
    counts = np.bincount(nodes, minlength=len(matrix.nodes))
    place = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(counts), max(1, int(counts.max(initial=0))))
    with_whom = np.zeros(shape, dtype=np.int64)
    with_whom[nodes[order], place] = others[order]
    for at, size in enumerate(matrix.sizes):
        table = np.full(shape, np.nan)
        speeds = matrix.exchanges.gb[:, at].min(axis=1)
        table[nodes[order], place] = np.concatenate([speeds, speeds])[order]
        medians = medians_of(table)
        slowest = np.argmin(np.where(np.isnan(table), np.inf, table), axis=1)
        for index, node in enumerate(matrix.nodes):
            if node in found and not np.isnan(medians[index]):
                found[node]["pairs"][str(size)] = {
                    "exchanges": int(np.isfinite(table[index]).sum()),
                    "median": float(f"{medians[index]:.4g}"),
                    "slowest": float(f"{table[index, slowest[index]]:.4g}"),
                    "with": matrix.nodes[with_whom[index, slowest[index]]],
                }


def versions_of(items: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return, by node and library, the versions that its ranks reported; more than one is worth a look."""
    found: dict[str, dict[str, set[str]]] = {}
    for item in items:
        for rank in item.get("ranks") or ():
            for library, version in (rank.get("versions") or {}).items():
                found.setdefault(str(rank.get("node")), {}).setdefault(str(library), set()).add(str(version))
    return {node: {library: sorted(seen) for library, seen in sorted(used.items())} for node, used in found.items()}
