"""By which version of which rules evidence was judged, and which of them are others now.

A rule is a check, a load (``load NAME``: what it does to the host) or what a stage concludes by itself (the stage's
name). Each has a whole number that is raised whenever it comes to another verdict: ``tests/rules`` holds it to that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from .registry import CHECKS, STAGE_CHECKS, STRESS_CHECKS, STRESSES

# What a stage concludes itself: burn-in of its own run, the stages in rounds of all that their nodes answered.
STAGE_RULES: Mapping[str, int] = {"burn_in": 1, "fabric": 2, "storage": 1, "acceptance": 4}
LOAD = "load "


def rules_of(stage: str, stresses: Iterable[str] = ()) -> dict[str, int]:
    """Return the version of each rule by which a stage judges now; ``stresses`` are those that it runs."""
    loads = [name for name in stresses if name in STRESS_CHECKS]
    checks = [*STAGE_CHECKS.get(stage, ()), *(check for name in loads for check in STRESS_CHECKS[name])]
    return {
        **{name: CHECKS[name].RULES for name in checks},
        **{f"{LOAD}{name}": STRESSES[name].RULES for name in loads},
        **{name: version for name, version in STAGE_RULES.items() if name == stage},
    }


def outdated(rules: Mapping[str, int], stage: str, required: Iterable[str]) -> tuple[str, ...]:
    """Return the rules that have another version now than in the evidence of a stage whose ``rules`` these are.

    ``required`` are the names of the checks that the stage owes of a node: what else it was asked is of no matter. A
    version that the evidence does not have is another one, and so is one that is newer than ours.
    """
    return tuple(name for name, version in _needed(stage, frozenset(required)) if rules.get(name) != version)


@functools.lru_cache(maxsize=256)
def _needed(stage: str, required: frozenset[str]) -> tuple[tuple[str, int], ...]:
    """Return the rules, with their versions, that findings of these checks rest on."""
    stresses = [name for name, checks in STRESS_CHECKS.items() if not required.isdisjoint(checks)]
    now = rules_of(stage, stresses)
    return tuple(sorted((name, now[name]) for name in now if name in required or name not in CHECKS))
