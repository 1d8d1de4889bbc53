"""Do CPUs and memory compute right under full load?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.stress_ng import EXITS, Run
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "cpu_stress"
RULES = 1
PROBES: tuple[str, ...] = ("cpu_stress",)

_STRESSORS = ("cpu", "vm")
# Exit status 2 of stress-ng(1): the stressor ran and its results were wrong.
_FAILED = 2


def subjects(expect: Expectations) -> Sequence[str]:
    """Return CPU and memory, each of which has a stressor."""
    return ["cpu", "memory"] if expect.cpu_stress else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Ask for a run to its end without a wrong result, in which each stressor did work."""
    run: Run = values["cpu_stress"]
    return [_judged(part, stressor, run) for part, stressor in zip(("cpu", "memory"), _STRESSORS)]


def _judged(part: str, stressor: str, run: Run) -> Finding:
    mine = [text for text in run.failures if _about(text, stressor)]
    if mine or (run.failures and not any(_about(text, other) for text in run.failures for other in _STRESSORS)):
        said = "; ".join((mine or list(run.failures))[:3])
        why = f"stress-ng found wrong results: {said}"[:400]
        return Finding(NAME, part, FAIL, "wrong results", "none", "", why, "investigate")
    if run.exit_status == _FAILED and not run.failures:
        why = f"stress-ng ends with status 2: a stressor failed: {'; '.join(run.troubles[:3])}"[:400]
        return Finding(NAME, part, FAIL, "failed", "none", "", why, "investigate")
    done = run.operations.get(stressor)
    why = ""
    if not done:
        why = f"stressor {stressor} did no work"
    elif not run.successful and not run.failures:
        why = f"stress-ng ends with status {run.exit_status}: {EXITS.get(run.exit_status, 'unknown')}"
    elif any(_about(text, stressor) for text in run.troubles if "skip" in text or "killed" in text.lower()):
        why = f"stressor {stressor} did not run through"
    if why:
        said = "; ".join(run.troubles[:3])
        why = f"{why}: {said}"[:400] if said else why
        return Finding(NAME, part, INCOMPLETE, done, "work done", "operations", why, "investigate")
    return Finding(NAME, part, PASS, done, "work done", "operations")


def _about(text: str, stressor: str) -> bool:
    """Say whether a message names the stressor: ``cpu: ...`` or, before 0.15, ``stress-ng-cpu: ...``."""
    words = text.replace("(", " ").replace(")", " ").replace(":", " ").split()
    return stressor in words or f"stress-ng-{stressor}" in words
