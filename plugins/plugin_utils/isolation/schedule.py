"""Which pairs meet in which permutation, and which groups: the programs of a campaign's steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.pairing import rounds_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import ALL_REDUCE, SENDRECV, Settings

# A fault that shows in this share of the exchanges is found with this probability, where it has to show so often.
INTERMITTENT_SHARE, CONFIDENCE, SHOWINGS = 0.3, 0.999, 5
# Values (node x rail x size) that a walk brings: the ledger keeps them all and planning reads them. With a declared
# budget as many as 1,024 nodes of 8 rails have pairs; without, what stays within seconds for 4,096 nodes.
MOST_VALUES, USUAL_VALUES = 17_000_000, 4_000_000
# Confirmations: of one that is always slow, of one that is so now and then, of a pair, of a pair beside hundreds.
STEADY_REPEATS, RARE_REPEATS, PAIR_REPEATS, CROWDED_REPEATS = 8, 24, 6, 4
MOST_PERMUTATIONS = 24
# Sound pairs beside those that are confirmed, to tell what slowed down everybody.
CONTROL_PAIRS = 16
# A permutation is taken for hung after so many times what planning counts for it, and not before.
HUNG_FACTOR, HUNG_SECONDS = 30, 30
# The longest collective that is asked for, 16 GiB twenty times, takes seconds; making connections takes longer.
GROUP_SECONDS = 120


@dataclass(frozen=True)
class Meeting:
    """What is to be measured again: one node with ``repeats`` trusted others, or a pair ``repeats`` times.

    ``weak``: noise makes such, nothing waits for it.
    """

    node: str
    other: str | None
    repeats: int
    weak: bool = False


def least_exchanges() -> int:
    """Return how many exchanges each node needs, so that an intermittent fault shows often enough to be told.

    For a single showing it were ln(1 - confidence) / ln(1 - share).
    """
    count = math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - INTERMITTENT_SHARE))
    while _fewer(count) > 1 - CONFIDENCE:
        count += 1
    return count


def _fewer(count: int) -> float:
    return sum(
        math.comb(count, shown) * INTERMITTENT_SHARE**shown * (1 - INTERMITTENT_SHARE) ** (count - shown)
        for shown in range(SHOWINGS)
    )


def walk_shifts(count: int, settings: Settings) -> list[int]:
    """Return the permutations of the walk of so many nodes: all of them, several times over for few nodes.

    Where the budget or the number of values does not allow all, they are spread evenly. With nodes ordered by pod and
    rack nearly all pairs of a permutation lie across racks; in which racks some are within goes on with the shift.
    """
    whole = rounds_of(count)
    if whole < 1:
        return []
    values = count * settings.ranks_per_node * len(settings.pairs.sizes_bytes)
    most = max(1, (USUAL_VALUES if settings.budget_minutes is None else MOST_VALUES) // values)
    if settings.budget_minutes is not None:
        # Three steps are the most that a campaign without a hang needs.
        seconds = settings.budget_minutes * 60 - 3 * settings.step_seconds
        spare = STEADY_REPEATS + 1
        most = min(most, max(1, int(seconds / settings.pairs.seconds) - spare))
    if most < whole:
        return sorted({(at * whole) // most for at in range(most)})
    cycles = max(1, min(math.ceil(least_exchanges() / (count - 1)), most // whole))
    return list(range(whole)) * cycles


def walk_move(shifts: Sequence[int], settings: Settings) -> dict[str, Any]:
    """Return the move of a walk over these permutations."""
    return {"name": "walk", **_pairs(settings), "shifts": list(shifts)}


def rest_move(pairs: Sequence[Sequence[tuple[int, int]]], settings: Settings, name: str = "walk") -> dict[str, Any]:
    """Return the move of explicit permutations."""
    return {"name": name, **_pairs(settings), "pairs": [[list(pair) for pair in step] for step in pairs]}


def inside_move(settings: Settings) -> dict[str, Any] | None:
    """Return the move inside each node, None where a node has a single rank."""
    if settings.ranks_per_node < 2:
        return None
    sizes = sorted({floor.size_bytes for floor in settings.floors if floor.nodes_min == 1})
    move = settings.groups
    return {
        "name": "inside",
        "kind": "inside",
        "collective": ALL_REDUCE,
        "sizes": sizes or [max(move.sizes_bytes)],
        "iterations": move.iterations,
        "warmup": move.warmup,
        "seconds": GROUP_SECONDS,
    }


def _pairs(settings: Settings) -> dict[str, Any]:
    move = settings.pairs
    return {
        "kind": "pairs",
        "collective": SENDRECV,
        "sizes": list(move.sizes_bytes),
        "iterations": move.iterations,
        "warmup": move.warmup,
        "seconds": max(HUNG_SECONDS, math.ceil(HUNG_FACTOR * move.seconds)),
    }


def group_moves(levels: Mapping[str, Sequence[Sequence[int]]], settings: Settings) -> list[dict[str, Any]]:
    """Return the moves of the groups (positions) of each level, the smaller ones first; all together at every size.

    Parts of the topology run one collective, at the sizes that have a limit and the largest.
    """
    move = settings.groups
    limited = {floor.size_bytes for floor in settings.floors if floor.collective != SENDRECV}
    limited |= {ceiling.size_bytes for ceiling in settings.latency if ceiling.collective != SENDRECV}
    some = [size for size in move.sizes_bytes if size in limited or size == max(move.sizes_bytes)]
    moves = []
    for level, groups in levels.items():
        whole = level == "all"
        for collective in move.collectives if whole else move.collectives[:1]:
            moves.append(
                {
                    "name": f"{level}:{collective}",
                    "kind": "groups",
                    "collective": collective,
                    "sizes": list(move.sizes_bytes if whole else some),
                    "iterations": move.iterations,
                    "warmup": move.warmup,
                    "seconds": GROUP_SECONDS,
                    "groups": [list(group) for group in groups],
                }
            )
    return moves


def train_move(settings: Settings) -> dict[str, Any]:
    """Return the move of the small training step over all nodes of the job."""
    move = settings.groups
    shape = dict(settings.train or {})
    return {
        "name": "train",
        "kind": "train",
        "sizes": [],
        **shape,
        "iterations": int(shape.get("steps", move.iterations)),
        "warmup": move.warmup,
        "seconds": GROUP_SECONDS,
    }


def confirmations(
    meetings: Sequence[Meeting], trusted: Sequence[str], places: Mapping[str, str | None]
) -> list[list[tuple[str, str]]]:
    """Return permutations in which every meeting gets its repeats, with different trusted partners, worst first.

    In what is left of each permutation trusted nodes meet each other.
    """
    left = [meeting.repeats for meeting in meetings]
    uses: Counter[tuple[str, str]] = Counter()
    busy: Counter[str] = Counter()
    steps: list[list[tuple[str, str]]] = []
    open_at = list(range(len(meetings)))
    while open_at and len(steps) < MOST_PERMUTATIONS:
        # What noise makes gets the room beside what is waited for, and little of its own.
        if len(steps) > STEADY_REPEATS and all(meetings[at].weak for at in open_at):
            break
        taken: set[str] = set()
        step: list[tuple[str, str]] = []
        pool = sorted(trusted, key=lambda each: (busy[each], each))
        # Pairs before nodes, which have a choice of partners; what noise makes is last.
        for at in sorted(
            open_at, key=lambda each: (meetings[each].weak, meetings[each].other is None, -left[each], each)
        ):
            meeting = meetings[at]
            node, other = meeting.node, meeting.other
            if node in taken or other in taken:
                continue
            if other is None:
                other = _partner(node, pool, taken, uses, places)
                if other is None:
                    continue
            taken |= {node, other}
            uses[node, other] += 1
            busy[other] += 1
            left[at] -= 1
            step.append((node, other))
        if not step:
            break
        free = [node for node in pool if node not in taken][: 2 * CONTROL_PAIRS]
        half = len(free) // 2
        step += list(zip(free[:half], free[half:], strict=False))
        steps.append(step)
        open_at = [at for at in open_at if left[at] > 0]
    return steps


def _partner(
    node: str,
    pool: Sequence[str],
    taken: set[str],
    uses: Mapping[tuple[str, str], int],
    places: Mapping[str, str | None],
) -> str | None:
    """Return the trusted node with which it was measured least, in another rack if there is one."""
    best: tuple[Any, ...] | None = None
    place = places.get(node)
    for other in pool:
        if other in taken or other == node:
            continue
        rank = (uses.get((node, other), 0), place is not None and places.get(other) == place, other)
        if rank[:2] == (0, False):
            return other
        if best is None or rank < best:
            best = rank
    return str(best[2]) if best else None
