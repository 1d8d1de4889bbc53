"""Which pairs meet in which permutation, and which groups: the programs of a campaign's steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collectives.pairing import pairs, rounds_of
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    ALL_REDUCE,
    SENDRECV,
    Settings,
)

# A fault that shows in this share of the exchanges is found with this probability, where it has to show so often.
INTERMITTENT_SHARE, CONFIDENCE, SHOWINGS = 0.3, 0.999, 5
# Values (node x rail x size) that a sweep brings: the ledger keeps them all and planning reads them. With a declared
# budget as many as 1,024 nodes of 8 rails have pairs; without, what stays within seconds for 4,096 nodes.
MOST_VALUES, USUAL_VALUES = 17_000_000, 4_000_000
# A node that is always slow is measured so often again.
STEADY_REPEATS = 8
# The phase in which suspects are measured again, and the one in which nodes meet those of their rack alone.
SUSPECTS_AGAIN, WITHIN_RACKS = "confirm", "racks"
# The level of groups of two nodes each, which run every collective: the fewest others answer for one that is slow.
TWOS = "twos"
# The phase in which all meet all, and the first word of those in which nodes are asked again on whom a job hung.
WALK_PHASE, HUNG_AGAIN = "walk", "hung"
# A permutation is taken for hung after so many times what planning counts for it, and not before.
HUNG_FACTOR, HUNG_SECONDS = 30, 30
# The longest collective that is asked for, 16 GiB twenty times, takes seconds; making connections takes longer.
GROUP_SECONDS = 120


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


def sweep_phases(racks: Sequence[str | None], settings: Settings) -> list[dict[str, Any]]:
    """Return the phases of a sweep of nodes in these racks.

    Where NVLink joins the nodes of a rack and not all pairs meet, those within each rack do: of a few chosen
    permutations most lie within some racks only.
    """
    within = within_racks(racks) if settings.nvlink_racks else []
    shifts = sweep_shifts(len(racks), settings, len(within))
    phases = [sweep_phase(shifts, settings)]
    if within and len(set(shifts)) < rounds_of(len(racks)):
        phases.append(racks_phase(within, settings))
    return phases


def within_racks(racks: Sequence[str | None]) -> list[list[tuple[int, int]]]:
    """Return permutations in which each position meets every other of its rack once, all racks at the same time."""
    by_rack: dict[str, list[int]] = {}
    for position, rack in enumerate(racks):
        if rack is not None:
            by_rack.setdefault(rack, []).append(position)
    steps: list[list[tuple[int, int]]] = []
    for members in by_rack.values():
        for shift in range(rounds_of(len(members))):
            steps += [[]] if shift == len(steps) else []
            steps[shift] += [(members[one], members[other]) for one, other in pairs(len(members), shift)]
    return steps


def sweep_shifts(count: int, settings: Settings, beside: int = 0) -> list[int]:
    """Return the permutations of the sweep of so many nodes: all of them, several times over for few nodes.

    Where the budget or the number of values does not allow all, they are spread evenly, and so many others ``beside``
    them count as well. With nodes ordered by pod and rack nearly all pairs of a permutation lie across racks; in which
    racks some are within goes on with the shift.
    """
    whole = rounds_of(count)
    if whole < 1:
        return []
    values = count * settings.ranks_per_node * len(settings.pairs.sizes_bytes)
    most = max(1, (USUAL_VALUES if settings.budget_minutes is None else MOST_VALUES) // values)
    if settings.budget_minutes is not None:
        # More than three steps are needed only by hangs, or by groups that miss something else each time.
        seconds = settings.budget_minutes * 60 - 3 * settings.step_seconds
        spare = STEADY_REPEATS + 1
        most = min(most, max(1, int(seconds / settings.pairs.seconds) - spare))
    if most < whole:
        most = max(1, most - beside)
        return sorted({(at * whole) // most for at in range(most)})
    cycles = max(1, min(math.ceil(least_exchanges() / (count - 1)), most // whole))
    return list(range(whole)) * cycles


def sweep_phase(shifts: Sequence[int], settings: Settings) -> dict[str, Any]:
    """Return the phase of a sweep over these permutations."""
    return {"name": WALK_PHASE, **_pairs(settings), "shifts": list(shifts)}


def pairs_phase(
    steps: Sequence[Sequence[tuple[int, int]]], settings: Settings, name: str = WALK_PHASE
) -> dict[str, Any]:
    """Return the phase of explicit permutations."""
    return {"name": name, **_pairs(settings), "pairs": [[list(pair) for pair in step] for step in steps]}


def racks_phase(steps: Sequence[Sequence[tuple[int, int]]], settings: Settings) -> dict[str, Any]:
    """Return the phase of permutations within racks."""
    return pairs_phase(steps, settings, WITHIN_RACKS)


def inside_phase(settings: Settings) -> dict[str, Any] | None:
    """Return the phase inside each node, None where a node has a single rank."""
    if settings.ranks_per_node < 2:
        return None
    sizes = sorted({floor.size_bytes for floor in settings.floors if floor.nodes_min == 1})
    phase = settings.groups
    return {
        "name": "inside",
        "kind": "inside",
        "collective": ALL_REDUCE,
        "sizes": sizes or [max(phase.sizes_bytes)],
        "iterations": phase.iterations,
        "warmup": phase.warmup,
        "seconds": GROUP_SECONDS,
    }


def hung_phases(
    alone: Sequence[int], with_others: Mapping[int, str], repeats: int, settings: Settings
) -> list[dict[str, Any]]:
    """Return the phases of jobs (by number) of one node alone, or of two, that ask the first one again on whom it hung.

    Of two the collective is told in which it did: that is asked as well, where it is none of pairs.
    """
    phases: list[dict[str, Any]] = []
    inside, both = inside_phase(settings), sorted(with_others)
    if inside and (alone or both):
        phases.append({**inside, "name": f"{HUNG_AGAIN}:inside", "jobs": sorted([*alone, *both])})
    if both:
        phases.append({**sweep_phase([0] * repeats, settings), "name": HUNG_AGAIN, "jobs": both})
    for collective in sorted(set(with_others.values()) & set(settings.groups.collectives)):
        jobs = [job for job in both if with_others[job] == collective]
        phases += [
            {**each, "name": f"{HUNG_AGAIN}:{collective}", "jobs": jobs}
            for each in group_phases({"all": [[0, 1]]}, settings)
            if each["collective"] == collective
        ]
    return phases


def _pairs(settings: Settings) -> dict[str, Any]:
    phase = settings.pairs
    return {
        "kind": "pairs",
        "collective": SENDRECV,
        "sizes": list(phase.sizes_bytes),
        "iterations": phase.iterations,
        "warmup": phase.warmup,
        "seconds": max(HUNG_SECONDS, math.ceil(HUNG_FACTOR * phase.seconds)),
    }


def group_phases(levels: Mapping[str, Sequence[Sequence[int]]], settings: Settings) -> list[dict[str, Any]]:
    """Return the phases of the groups (positions) of each level, the smaller ones first; all together at every size.

    Parts of the topology run one collective, at the sizes that have a limit and the largest.
    """
    phase = settings.groups
    phases = []
    for level, groups in levels.items():
        whole = level == "all"
        for collective in phase.collectives if whole else phase.collectives[:1]:
            sizes = phase.sizes_bytes if whole else judged_sizes(settings)
            phases.append(_groups(f"{level}:{collective}", collective, sizes, groups, settings))
    return phases


def twos_phases(
    permutations: Sequence[Sequence[tuple[int, int]]], collectives: Sequence[str], settings: Settings
) -> list[dict[str, Any]]:
    """Return the phases of groups of two (positions), each permutation by every one of these collectives."""
    return [
        _groups(f"{TWOS}:{collective}:{at}", collective, judged_sizes(settings), groups, settings)
        for collective in collectives
        for at, groups in enumerate(permutations)
    ]


def judged_sizes(settings: Settings) -> list[int]:
    """Return the sizes that have a limit, and the largest."""
    limited = {floor.size_bytes for floor in settings.floors if floor.collective != SENDRECV}
    limited |= {ceiling.size_bytes for ceiling in settings.latency if ceiling.collective != SENDRECV}
    sizes = settings.groups.sizes_bytes
    return [size for size in sizes if size in limited or size == max(sizes)]


def _groups(
    name: str, collective: str, sizes: Sequence[int], groups: Sequence[Sequence[int]], settings: Settings
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "groups",
        "collective": collective,
        "sizes": list(sizes),
        "iterations": settings.groups.iterations,
        "warmup": settings.groups.warmup,
        "seconds": GROUP_SECONDS,
        "groups": [list(group) for group in groups],
    }


def train_phase(settings: Settings) -> dict[str, Any]:
    """Return the phase of the small training step over all nodes of the job."""
    phase = settings.groups
    shape: dict[str, Any] = plain(settings.train) if settings.train else {}
    return {
        "name": "train",
        "kind": "train",
        "sizes": [],
        **shape,
        "iterations": int(shape.get("steps", phase.iterations)),
        "warmup": phase.warmup,
        "seconds": GROUP_SECONDS,
    }
