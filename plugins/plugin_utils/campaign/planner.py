"""What every stage's planner gives: the next round, or what is concluded; and how it pairs nodes at first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding


@dataclass(frozen=True)
class Round:
    """Disjoint groups to measure at the same time, a job each; ``kind`` says what for, in the words of the planner.

    ``program`` is what each job runs once started ({"moves": [...]}, JSON data), empty where the stage's
    module does one thing only.
    """

    number: int
    kind: str
    groups: tuple[tuple[str, ...], ...]
    program: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Conclusion:
    """Findings by node under test; ``held`` and ``doubted`` (partners, against whom there is no finding) say why.

    ``remarks`` are what people have to know and no node is judged by.
    """

    findings: Mapping[str, tuple[Finding, ...]]
    held: Mapping[str, str] = field(default_factory=dict)
    doubted: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def across_racks(nodes: Sequence[str], racks: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Return disjoint pairs, across racks as far as no rack holds more than half; one of an odd number is left over."""
    sizes = Counter(racks.get(node) for node in nodes)
    ordered = sorted(nodes, key=lambda node: (-sizes[racks.get(node)], str(racks.get(node)), node))
    # Racks now lie in blocks: whoever is half the list away is in another block.
    half = (len(ordered) + 1) // 2
    return sorted((min(pair), max(pair)) for pair in zip(ordered, ordered[half:], strict=False))
