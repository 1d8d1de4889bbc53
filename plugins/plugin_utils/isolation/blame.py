"""What becomes of a node and why: one check's numbers, in the words that people read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import Facts
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    INTERMITTENT,
    LINK,
    PAIR,
    Suspect,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import median

# What becomes of a node. Open: held, for want of a second measurement; cleared: it was suspected, and is sound.
REJECTED, HELD, OPEN, CLEARED = "rejected", "held", "open", "cleared"
# Fewer exchanges than these confirm nothing, and clear nobody.
LEAST_CONFIRMED = 3
NOT_ASKED = "could not be measured again with any proven node, so no node is blamed"


@dataclass(frozen=True)
class Blame:
    """What becomes of a node and why: one check's numbers, and what a person is to do.

    ``kind`` is that of the suspect behind it, empty where something else than slow exchanges spoke.
    """

    node: str
    verdict: str
    check: str = ""
    reason: str = ""
    measured: float | None = None
    expected: float | None = None
    unit: str = ""
    action: str = "investigate"
    kind: str = ""

    def but(self, verdict: str, text: str) -> Blame:
        """Return the same with another verdict, and why."""
        return replace(self, verdict=verdict, reason=f"{self.reason}; {text}")


def by_node(blames: Iterable[Blame], verdict: str) -> dict[str, list[Blame]]:
    """Return the blames of one verdict by node, in their order."""
    found: dict[str, list[Blame]] = {}
    for blame in blames:
        if blame.verdict == verdict:
            found.setdefault(blame.node, []).append(blame)
    return found


def held_instead(blames: Sequence[Blame], why: str, nodes: Iterable[str] | None = None) -> list[Blame]:
    """Return the blames with everybody held, or these nodes, who was rejected, after what they are held for already."""
    chosen = {blame.node for blame in blames} if nodes is None else set(nodes)
    moved = [blame.verdict == REJECTED and blame.node in chosen for blame in blames]
    kept = [blame for blame, moves in zip(blames, moved, strict=True) if not moves]
    return kept + [blame.but(HELD, why) for blame, moves in zip(blames, moved, strict=True) if moves]


def heaviest(blames: Sequence[Blame]) -> list[Blame]:
    """Return those of one node's blames that decide what becomes of it."""
    verdict = min((blame.verdict for blame in blames), key=(REJECTED, HELD, OPEN, CLEARED).index)
    return [blame for blame in blames if blame.verdict == verdict]


def both(facts: Facts, blame: Blame, names: Sequence[str]) -> list[Blame]:
    return [replace(blame, node=name) for name in names if name in facts.tested]


def blame_of(facts: Facts, suspect: Suspect, verdict: str, values: Any, again: str) -> Blame:
    """Return what is said of a suspect, or of the first of several nodes, with what was measured."""
    channel = facts.channels[suspect.channel]
    values = values[~np.isnan(values)]
    measured = float(f"{median(values):.4g}") if len(values) else None
    expected = float(f"{channel.expected:.4g}")
    size = size_text(channel.size)
    standard = "the class' limit" if channel.limit else f"{facts.sweep.peers} peers"
    where = "" if channel.rail is None else f"rail {channel.rail}: "
    much = f"{suspect.slowdown:.1%} worse than {standard} at {size}"
    if suspect.kind == INTERMITTENT:
        said = f"{where}slow in {suspect.share:.0%} of {suspect.rows} exchanges at {size}; {again}"
    elif suspect.kind == BOUNDARY:
        said = f"{where}{suspect.unit} is {much} with all nodes outside and not within; {again}"
        if suspect.beyond:
            times = f"in {suspect.share:.0%} of {suspect.rows} exchanges"
            said = f"{where}{suspect.unit} are {much} {times} with each other and not with others; {again}"
    elif suspect.kind == PAIR:
        names = " and ".join(facts.names(suspect.members))
        said = f"{where}{names} are {much} with each other and not with others; {again}"
    else:
        said = f"{where}{much} in {suspect.share:.0%} of {suspect.rows} exchanges; {again}"
    action = "reseat" if channel.rail is not None and suspect.kind in (LINK, INTERMITTENT) else "investigate"
    node = facts.matrix.nodes[suspect.members[0]]
    return Blame(node, verdict, channel.check, said, measured, expected, channel.unit, action, suspect.kind)


def sure_text(chance: float) -> str:
    """Return how sure a verdict is, by the chance that noise alone makes one like it among all that were looked at."""
    return f"confidence {100 * (1 - chance):.2f} %" if chance > 5e-5 else "confidence over 99.99 %"
