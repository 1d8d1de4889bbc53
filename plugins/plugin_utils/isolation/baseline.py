"""What a healthy fleet showed, proposed as a baseline to judge small fleets by; operators decide to adopt it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import LEAST_SPREAD, MAD_SIGMA, Topology
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    SENDRECV,
    Settings,
    bus_bandwidth,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Matrix, Seen, matrix_of


@dataclass(frozen=True)
class Figure:
    """Median and spread (GB/s) of ``count`` measurements of a collective over so many nodes at one size."""

    collective: str
    nodes: int
    size_bytes: int
    median: float
    spread: float
    count: int


@dataclass(frozen=True)
class Proposal:
    """What may be adopted for one hardware class on one fabric with one version of the software."""

    hardware_class: str
    fabric: str
    versions: str
    figures: tuple[Figure, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def proposed(key: tuple[str, str, str], healthy: Iterable[str], seen: Seen, settings: Settings) -> Proposal | None:
    """Return what the healthy nodes showed among each other, None where they are too few for a cohort.

    ``key`` are class, fabric and versions. Nobody who did not pass takes part, nor does a group with one.
    """
    good = set(healthy)
    if len(good) < settings.cohort.peers:
        return None
    nodes = sorted(
        {str(node) for _number, plan, _item in seen for job in plan.get("groups", ()) for node in job} | good
    )
    matrix = matrix_of(nodes, seen, settings.pairs.sizes_bytes, settings.ranks_per_node, spread=False)
    sound = np.array([node in good for node in matrix.nodes])
    rows = _compared(matrix, sound[matrix.exchanges.one] & sound[matrix.exchanges.other], settings)
    figures = []
    for at, size in enumerate(matrix.sizes):
        speeds = np.median(matrix.exchanges.gb[rows, at], axis=1)
        speeds = speeds[~np.isnan(speeds)]
        if len(speeds) >= settings.cohort.peers:
            figures.append(_figure(SENDRECV, 2, size, speeds))
    groups: dict[tuple[str, int, int], list[float]] = {}
    for group in matrix.groups:
        if group.kind in ("inside", "groups") and set(group.nodes) <= good:
            ranks = len(group.nodes) * settings.ranks_per_node
            speed = bus_bandwidth(group.collective, ranks, group.size_bytes, group.seconds)
            groups.setdefault((group.collective, len(group.nodes), group.size_bytes), []).append(speed)
    figures += [_figure(*what, np.array(speeds)) for what, speeds in sorted(groups.items())]
    return Proposal(*key, tuple(figures))


def _compared(matrix: Matrix, rows: Any, settings: Settings) -> Any:
    """Return the exchanges that one figure may stand for.

    Where NVLink joins the hosts of a rack, that are those between racks: a baseline has one figure for all pairs, and
    what is usual inside a rack is several times what any others reach.
    """
    if not settings.nvlink_racks:
        return rows
    exchanges = matrix.exchanges
    distances = Topology.of(matrix.nodes, settings.places).distances(exchanges.one, exchanges.other)
    between = rows & (distances > 0)
    return between if between.any() else rows


def _figure(collective: str, nodes: int, size_bytes: int, speeds: Any) -> Figure:
    median = float(np.median(speeds))
    spread = max(MAD_SIGMA * float(np.median(np.abs(speeds - median))), LEAST_SPREAD * median)
    return Figure(collective, nodes, size_bytes, float(f"{median:.4g}"), float(f"{spread:.3g}"), len(speeds))


def adopted(data: Mapping[str, Any]) -> dict[tuple[str, int, int], float]:
    """Return an adopted proposal's medians as Settings take them.

    Raises ValueError where it is not what ``to_dict`` wrote.
    """
    try:
        found = [
            ((str(each["collective"]), int(each["nodes"]), int(each["size_bytes"])), float(each["median"]))
            for each in data["figures"]
        ]
    except (KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"baseline: {exc!r}, expected figures with collective, nodes, size_bytes and median") from exc
    if any(not value > 0 or value == float("inf") for _key, value in found):
        raise ValueError("baseline: a median is not above 0")
    return dict(found)
