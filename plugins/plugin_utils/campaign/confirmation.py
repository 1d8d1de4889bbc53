"""Suspects are measured again with partners that are proven: one rule for rails, storage and collectives.

A bad measurement of several nodes implicates all of them and confirms none. Each suspect is measured again with
reference nodes, which were good in this campaign or are in service; only what is bad with several of them, and good
with nobody, is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

# With one reference node a fault between just these two would be taken for the suspect's.
WITNESSES = 2


def confirmed(bad: int, good: int = 0) -> bool:
    """Return whether so many independent measurements that were bad, and good, confirm a suspect."""
    return bad >= WITNESSES and not good


def reference_nodes(good: Iterable[str], in_service: Iterable[str]) -> list[str]:
    """Return who may tell about suspects: who was good in this campaign before who is merely in service."""
    return list(dict.fromkeys((*good, *in_service)))


def best_of(
    candidates: Iterable[str], rank: Callable[[str], tuple[Any, ...]], best: tuple[Any, ...] = ()
) -> str | None:
    """Return the candidate of the least rank, None of none; the first whose rank begins as ``best`` ends the search."""
    found: str | None = None
    least: tuple[Any, ...] = ()
    for candidate in candidates:
        its = rank(candidate)
        if best and its[: len(best)] == best:
            return candidate
        if found is None or its < least:
            found, least = candidate, its
    return found


def with_reference_nodes(
    suspects: Iterable[str],
    choices: Callable[[str], Sequence[str]],
    rank: Callable[[str, str], tuple[Any, ...]],
    taken: Iterable[str] = (),
) -> list[tuple[str, str]]:
    """Return disjoint pairs of suspects, in their order, each with the best of those that may be its reference node.

    Whoever is ``taken`` is in no pair; a suspect without a choice is left out.
    """
    busy = set(taken)
    pairs = []
    for node in suspects:
        free = () if node in busy else (other for other in choices(node) if other not in busy)
        other = best_of(free, partial(rank, node))
        if other is not None:
            busy |= {node, other}
            pairs.append((node, other))
    return pairs
