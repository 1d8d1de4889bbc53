"""How often the planner was right in many fleets of one kind: counts that add up, and what they say of all such fleets.

Each figure has a bound of its own, one-sided with 95 % confidence (Clopper and Pearson): of 3,000 fleets without a
single failure at most 0.1 % of all such fleets fail.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .campaign import Played

CONFIDENCE = 0.95
FAILURES = ("missed", "wrongly_admitted", "wrongly_rejected", "held_innocents")
# Of so many fleets that went wrong the seed is kept, so that they can be played again.
EXAMPLES = 10


@dataclass
class Tally:
    """Counts of ``fleets``: by failure in how many of them (``failed``) and of how many nodes, steps and minutes."""

    fleets: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    nodes: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    minutes: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, seed: int, played: Played) -> None:
        """Count a fleet."""
        self.fleets += 1
        for failure in FAILURES:
            if found := getattr(played, failure):
                self.failed[failure] += 1
                self.nodes[failure] += len(found)
                names = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
                self.examples += [f"seed {seed}: {failure} {names}"]
        self.steps[str(played.steps)] += 1
        self.minutes[f"{played.minutes:.2f}"] += 1
        del self.examples[EXAMPLES:]

    def merge(self, other: Tally) -> None:
        """Count what another has counted."""
        self.fleets += other.fleets
        for name in ("failed", "nodes", "steps", "minutes"):
            getattr(self, name).update(getattr(other, name))
        self.examples = [*self.examples, *other.examples][:EXAMPLES]

    def counts(self) -> dict[str, Any]:
        """Return it as JSON keeps it."""
        named = {name: dict(sorted(getattr(self, name).items())) for name in ("failed", "nodes", "steps", "minutes")}
        return {"fleets": self.fleets, **named, "examples": self.examples}

    @classmethod
    def of(cls, counts: Mapping[str, Any]) -> Tally:
        """Return what JSON kept."""
        named = {name: Counter(counts[name]) for name in ("failed", "nodes", "steps", "minutes")}
        return cls(counts["fleets"], examples=list(counts["examples"]), **named)

    def figures(self) -> dict[str, Any]:
        """Return each figure with its bound: shares of fleets, nodes, steps and minutes."""
        total = self.fleets
        found: dict[str, Any] = {
            "detected": {
                "fleets": total - self.failed["missed"],
                "rate": _rounded(1 - self.failed["missed"] / total),
                "at_least": _rounded(1 - at_most(self.failed["missed"], total)),
            }
        }
        for failure in FAILURES[1:]:
            failed = self.failed[failure]
            found[failure] = {
                "fleets": failed,
                "nodes": self.nodes[failure],
                "rate": _rounded(failed / total),
                "at_most": _rounded(at_most(failed, total)),
            }
        return {**found, "steps": _spread(self.steps, total), "minutes": _spread(self.minutes, total)}


@cache
def at_most(hits: int, total: int) -> float:
    """Return the largest rate at which so few hits, or fewer, are still seen in one case of twenty."""
    if hits >= total:
        return 1.0
    low, high = hits / total, 1.0
    for _halving in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance(hits, total, middle) > 1 - CONFIDENCE else (low, middle)
    return high


def _chance(hits: int, total: int, rate: float) -> float:
    """Return how likely at most so many hits are."""
    logs = [
        math.lgamma(total + 1)
        - math.lgamma(each + 1)
        - math.lgamma(total - each + 1)
        + (each * math.log(rate) if each else 0.0)
        + (total - each) * math.log1p(-rate)
        for each in range(hits + 1)
        if 0 < rate < 1
    ]
    return math.fsum(math.exp(each) for each in logs) if logs else float(rate <= 0)


def _spread(values: Mapping[str, int], total: int) -> dict[str, float]:
    """Return median and maximum, and which share of such fleets is beyond that maximum at most."""
    ordered = sorted((float(value), count) for value, count in values.items())
    before, median = 0, ordered[-1][0]
    for value, count in ordered:
        before += count
        if 2 * before >= total:
            median = value
            break
    return {"median": median, "max": ordered[-1][0], "beyond_at_most": _rounded(at_most(0, total))}


def _rounded(share: float) -> float:
    return round(share, 6)


def shown(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return cells with their figures as a table for the terminal."""
    lines = [
        f"{'hosts':>5} {'fault':18} {'noise':>6} {'fleets':>6} {'detected':>16} {'admitted':>16} {'rejected':>16} "
        f"{'innocents held':>22} {'steps':>6} {'minutes':>13}"
    ]
    for cell in cells:
        name = cell["fault"] + (f" x{cell['times_noise']:g}" if "times_noise" in cell else "")
        detected = f"{cell['detected']['rate']:7.2%} >{cell['detected']['at_least']:7.2%}"
        others = [f"{cell[each]['rate']:7.2%} <{cell[each]['at_most']:7.2%}" for each in FAILURES[1:]]
        steps, minutes = cell["steps"], cell["minutes"]
        lines.append(
            f"{cell['hosts']:5} {name:18} {cell['noise']:6.1%} {cell['fleets']:6} {detected} {others[0]} {others[1]} "
            f"{others[2]} {cell['held_innocents']['nodes']:5} {steps['median']:g}/{steps['max']:g} "
            f"{minutes['median']:6.2f}/{minutes['max']:.2f}"
        )
    return "\n".join(lines)
