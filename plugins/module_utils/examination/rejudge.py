"""Judging what was printed before: the raw outputs kept beside a record of evidence, or one saved output of a tool.

It never makes a record better: what was no pass stays what it was, and of outputs that are missing, cut off or altered
nothing is said at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..host.host import Output
from ..host.raw_outputs import PLACE, RawError, digests_of, places_in, read_outputs
from ..words.errors import MusterError
from ..words.evidence import Evidence, digest_of, expect_digest_of
from ..words.expectations import Expectations
from ..words.finding import Finding, merged
from ..words.reader import plain
from .examine import Examination, Measures, judge, latest_measures
from .registry import CHECKS, PROBES, STRESS_CHECKS, STRESSES, applies, judge_stage, judge_stress, parsers
from .rules import rules_of

# Of these stages all that was judged last is kept.
STAGES = ("preflight", "burn_in")
# Burn-in keeps the last examination of the idle host, the last beside each load, and what each load printed.
_IDLE, _LOADED, _STEP = (PLACE, "last"), "loaded_", "step_"
# Makes an id of what a record judged again consists of, so that doing it twice gives the same record.
_NAMESPACE = uuid.UUID("5b0f4c1e-8d0a-4a6e-9d53-3d0c9b7f2f11")
_NAMED = 3

Places = Mapping[str, Mapping[str, Output]]


class SavedError(MusterError, ValueError):
    """A saved output that cannot be judged: says which file, what was found and what was expected."""


class AlteredError(SavedError):
    """A kept output that is not the one which evidence names."""


def saved_outputs(path: str, probe: str | None = None) -> dict[str, Output]:
    """Return outputs by probe: those of a directory that ``EvidenceStore.write_raw`` wrote, or one file of ``probe``.

    Raises SavedError.
    """
    place = Path(path)
    try:
        if place.is_dir():
            return read_outputs(place)
        text = place.read_text(encoding="utf-8", errors="replace")
    except RawError as exc:
        raise SavedError(str(exc)) from exc
    except OSError as exc:
        raise SavedError(f"{path}: {exc}") from exc
    if probe is None:
        raise SavedError(f"{path}: one file, expected --probe with it to say which tool printed it")
    return {probe: Output(text)}


def checks_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the checks that need no other outputs than those of these probes and stresses, and can use one of them."""
    given = set(names)
    return tuple(
        name
        for name, check in CHECKS.items()
        if set(check.PROBES) <= given and given & {*check.PROBES, *getattr(check, "OPTIONAL_PROBES", ())}
    )


def rejudged(outputs: Mapping[str, Output], expect: Expectations, checks: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Return what the checks (all that the outputs suffice for, if none is named) say of the outputs.

    Raises SavedError for a name that is no probe, stress or check.
    """
    for name in outputs:
        if name not in PROBES and name not in STRESSES:
            raise SavedError(f"found probe {name!r}, expected one of {', '.join([*PROBES, *STRESSES])}")
    for name in checks:
        if name not in CHECKS:
            raise SavedError(f"found check {name!r}, expected one of {', '.join(CHECKS)}")
    asked = [CHECKS[name] for name in checks or checks_of(outputs)]
    needed = {*outputs, *(probe for check in asked for probe in check.PROBES)}
    return judge(outputs, parsers(needed), asked, expect).findings


def judged_again(evidence: Evidence, kept: Places, expect: Expectations, version: str, program: str) -> Evidence:
    """Return the evidence that the present rules make of a finished record's kept outputs.

    It is as old as the record, and no better: where an earlier examination of a burn-in found a fault, that stands.
    What a load does to a host is not judged again, nor is a check of which not all outputs were kept, as when it came
    with a later version; where another version of these is in force, the record stays outdated. The same arguments give
    the same record. Raises SavedError where it cannot be made.
    """
    named = {name.rpartition("/")[2] for name in evidence.raw}
    untold = {name for name, check in CHECKS.items() if not named.issuperset(check.PROBES)}
    examinations = examinations_of(evidence, kept, expect)
    found = [finding for each in examinations.values() for finding in each.findings if finding.check not in untold]
    measures = dict(evidence.detail.get("measures", {}))
    for news in measures_by_load(evidence, examinations):
        measures = latest_measures(measures, {check: news[check] for check in news if check not in untold})
    now = rules_of(evidence.stage, {name.rpartition("/")[2] for name in loads_of(evidence)})
    # What the run found about itself, and what its loads did, no output tells.
    as_they_were = {name: each for name, each in evidence.rules.items() if name not in CHECKS or name in untold}
    rules = {**{name: each for name, each in now.items() if name in CHECKS and name not in untold}, **as_they_were}
    before = {name: evidence.rules.get(name) for name in rules if evidence.rules.get(name) != rules[name]}
    return replace(
        evidence,
        id=str(uuid.uuid5(_NAMESPACE, digest_of([evidence.original, program, rules]))),
        findings=merged(evidence.findings, found),
        detail={
            **evidence.detail,
            **({"measures": measures} if measures or "measures" in evidence.detail else {}),
            "judged_again": {"of": evidence.original, "from": before},
        },
        muster_version=version,
        rules=rules,
        program=program,
    )


def measures_by_load(evidence: Evidence, examinations: Mapping[str, Examination]) -> list[Measures]:
    """Return what each load of a burn-in measured, in the order of its steps."""
    return [examinations[load].measures for load in loads_of(evidence) if load in examinations]


def loads_of(evidence: Evidence) -> list[str]:
    """Return what a burn-in's steps ran, as its raw outputs are named; raises SavedError for steps that are none."""
    steps = evidence.detail.get("steps", ())
    try:
        return [f"{_STEP}{number}/{load}" for number, step in enumerate(steps, 1) for load in step.get("run") or ()]
    except (AttributeError, TypeError) as exc:
        raise SavedError(f"evidence {evidence.id}: detail.steps cannot be read: {exc}") from exc


def examinations_of(evidence: Evidence, kept: Places, expect: Expectations) -> dict[str, Examination]:
    """Judge a record's kept outputs by the present rules, and return what came of each directory.

    ``kept`` has outputs by directory and probe; what evidence does not name is left out. Raises SavedError unless all
    that it names is there as it was, and for a record that is not finished, or was judged by other expectations.
    """
    name = f"evidence {evidence.id}"
    if evidence.stage not in STAGES or evidence.finished is None:
        expected = " or ".join(STAGES)
        raise SavedError(f"{name}: {evidence.stage}, finished {evidence.finished}, expected a finished {expected}")
    if evidence.expect_digest != expect_digest_of(evidence.stage, plain(expect)):
        raise SavedError(f"{name}: judged by other expectations than these")
    missing = [load for load in loads_of(evidence) if load not in evidence.raw]
    if any(applies(load.rpartition("/")[2], expect) for load in missing):
        raise SavedError(f"{name}: names no raw output of {', '.join(missing)}")
    outputs = _verified(evidence, kept)
    idle = {probe: output for place in _IDLE for probe, output in outputs.get(place, {}).items()}
    found: dict[str, Examination] = {}
    for place, each in outputs.items():
        if place.startswith(_STEP):
            beside = {**outputs.get(_LOADED + place[len(_STEP) :], {}), **each}
            for load in each:
                found[f"{place}/{load}"] = judge_stress(load, {**idle, **each}, expect, beside)
        else:
            found[place] = judge_stage(evidence.stage, each, expect, loaded=place.startswith(_LOADED))
    return found


def _verified(evidence: Evidence, kept: Places) -> dict[str, dict[str, Output]]:
    """Return the outputs that evidence names, each seen to be the one that it names."""
    try:
        named = places_in(evidence.raw)
    except RawError as exc:
        raise SavedError(f"evidence {evidence.id}: {exc}") from exc
    if not any(place in named for place in _IDLE):
        raise SavedError(f"evidence {evidence.id}: names no raw output")
    found: dict[str, dict[str, Output]] = {}
    missing: list[str] = []
    altered: list[str] = []
    for place, probes in named.items():
        known: Iterable[str] = STRESS_CHECKS if place.startswith(_STEP) else PROBES
        if not (place in _IDLE or place.startswith((_LOADED, _STEP))) or not set(probes) <= {*known}:
            raise SavedError(f"evidence {evidence.id}: raw outputs {place} of {', '.join(probes)}, expected a probe's")
        found[place] = {probe: kept[place][probe] for probe in probes if probe in kept.get(place, {})}
        missing += [f"{place}/{probe}" for probe in probes if probe not in found[place]]
        actual = digests_of(found[place], place)
        altered += [name for name, digest in actual.items() if digest != evidence.raw[name]]
    if altered:
        raise AlteredError(f"raw output of evidence {evidence.id} is not what it was: {_shown(altered)}")
    if missing:
        raise SavedError(f"raw output of evidence {evidence.id} is not there: {_shown(missing)}")
    return found


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more


def line_of(finding: Finding) -> str:
    """Return a finding as one line for people: verdict, check, part, what was found, and what to do."""
    what = finding.reason or f"{finding.measured} {finding.unit}".rstrip()
    return f"{finding.verdict:10} {finding.check} {finding.subject}: {what} [{finding.action}]"
