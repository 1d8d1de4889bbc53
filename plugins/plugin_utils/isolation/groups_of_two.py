"""Which nodes are slow in a collective, by groups of two: every node is in one, and who was slow in others again.

Racks, pods and all together tell that a collective is slow, and not on whom. Of two like groups of two nodes the slow
one has the slow node; measured with others, who are proven, the node is slow again and its mate is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import TWOS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Judged, Operation, Part

# So many permutations at the most: each is a phase for every collective.
MOST_COUPLES = 24


@dataclass
class Doubt:
    """A node whose group of two missed ``part`` in round ``number``, and by partner how often it was so again."""

    node: str
    mate: str
    number: int
    part: Part
    again: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def missed(self) -> int:
        """Return in how many groups it was slow again."""
        return sum(bad for _mate, bad in self.again)

    @property
    def sound(self) -> bool:
        """Return whether it was fast with several others, and slow with none."""
        return not self.missed and len(self.again) > WITNESSES

    @property
    def witnesses(self) -> int:
        """Return with how many different proven nodes it was slow again."""
        return len({mate for mate, bad in self.again if bad})


@dataclass(frozen=True)
class GroupsOfTwo:
    """What groups of two showed: by node what it ``met``, and by operation which nodes are in ``doubt``.

    ``planned`` says in how many rounds each node was to be in one; ``first`` are the operations in which two nodes
    were measured first, with whether they were missed; ``unlike`` are nodes that too few like groups judge.
    """

    planned: Mapping[str, int]
    met: Mapping[str, frozenset[Operation]]
    doubts: Mapping[tuple[str, Operation], Doubt]
    first: Sequence[tuple[str, str, Operation, bool]]
    unlike: frozenset[str]

    @classmethod
    def of(cls, groups: Iterable[Judged], plans: Mapping[int, Mapping[str, Any]]) -> GroupsOfTwo:
        """Return what these groups, in the order of their rounds, showed."""
        met: dict[str, set[Operation]] = {}
        doubts: dict[tuple[str, Operation], Doubt] = {}
        first: list[tuple[str, str, Operation, bool]] = []
        unlike: dict[tuple[str, Operation], bool] = {}
        for group in groups:
            if group.level != TWOS:
                continue
            one, other = group.nodes
            for part in group.parts:
                what = part.operation
                fine = {node for node in group.nodes if what in met.get(node, ())}
                new = {node for node in group.nodes if node not in fine and (node, what) not in doubts}
                proven = fine | {node for node in group.nodes if (node, what) in doubts and doubts[node, what].sound}
                if len(new) == len(group.nodes):
                    first.append((one, other, what, part.bad))
                for node, mate in ((one, other), (other, one)):
                    if node in fine:
                        continue
                    if node in new and part.bad:
                        doubts[node, what] = Doubt(node, mate, group.number, part)
                    elif node in new and group.whole:
                        met.setdefault(node, set()).add(what)
                        unlike[node, what] = not part.likes
                    elif node not in new:
                        _note(doubts[node, what], mate, part, group.whole, mate in proven)
        lacking = frozenset(node for (node, _what), lacks in unlike.items() if lacks)
        return cls(_planned(plans), {node: frozenset(its) for node, its in met.items()}, doubts, first, lacking)

    def owed(self, node: str, operations: Iterable[Operation]) -> list[Operation]:
        """Return what the node was measured in by no group of two that came to its end."""
        met = self.met.get(node, frozenset())
        return [each for each in operations if each not in met and (node, each) not in self.doubts]


def _note(doubt: Doubt, mate: str, part: Part, whole: bool, proven: bool) -> None:
    """Note one more measurement of a node in doubt; it is slow only beside who is not, and sound beside anybody."""
    if doubt.part.likes and not part.likes:
        # What likes put in doubt a floor does not clear.
        return
    if (part.bad and proven) or (not part.bad and whole):
        doubt.again.append((mate, part.bad))


def _planned(plans: Mapping[int, Mapping[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for plan in plans.values():
        moves = (plan.get("program") or {}).get("moves", ())
        here = {
            plan["groups"][0][index]
            for phase in moves
            if str(phase.get("name")).startswith(f"{TWOS}:")
            for group in phase["groups"]
            for index in group
        }
        for node in here:
            found[node] = found.get(node, 0) + 1
    return found


def couples_of(asked: Mapping[str, int], proven: Sequence[str], order: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return permutations of groups of two in which each node that is asked is so often with another that is proven.

    Everybody else who is proven is in a group as well, so that each has likes. Where nobody is proven, those that are
    asked are with each other. In ``order`` neighbours share a rack or pod; a group's two lie half of it apart.
    """
    left, place = dict(asked), {node: at for at, node in enumerate(order)}
    ring = sorted(proven or asked, key=lambda node: place[node])
    steps: list[list[tuple[str, str]]] = []
    while any(left.values()) and len(ring) > 1 and len(steps) < MOST_COUPLES:
        turn, step, free = len(steps), [], list(ring)
        waiting = sorted((node for node, count in left.items() if count), key=lambda node: (-left[node], place[node]))
        for node in waiting if proven else ():
            if not free:
                break
            start = next((at for at, each in enumerate(free) if place[each] > place[node]), 0)
            step.append((node, free.pop((start + len(free) // 2 + turn) % len(free))))
        half = len(free) // 2
        # Of an odd number another one sits out each time.
        free = free[turn % len(free) :] + free[: turn % len(free)] if free else free
        first, second = sorted(free[: 2 * half], key=lambda node: place[node])[:half], []
        second = sorted(set(free[: 2 * half]) - set(first), key=lambda node: place[node])
        step += zip(first, second[turn % half :] + second[: turn % half] if half else (), strict=False)
        for one, other in step:
            for node in {one, other} & left.keys():
                left[node] = max(0, left[node] - 1)
        steps.append(step)
    return steps
