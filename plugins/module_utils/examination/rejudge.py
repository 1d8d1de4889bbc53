"""Judging what was printed before: the raw outputs kept beside a record of evidence, or one saved output of a tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..host.host import Output
from ..words.errors import MusterError
from ..words.expectations import Expectations
from ..words.finding import Finding
from .examine import judge
from .registry import CHECKS, PROBES, STRESSES, parsers


class SavedError(MusterError, ValueError):
    """A saved output that cannot be judged: says which file, what was found and what was expected."""


def saved_outputs(path: str, probe: str | None = None) -> dict[str, Output]:
    """Return outputs by probe: those of a directory that ``EvidenceStore.write_raw`` wrote, or one file of ``probe``.

    Raises SavedError.
    """
    place = Path(path)
    try:
        if place.is_dir():
            rest = json.loads((place / "outputs.json").read_text(encoding="utf-8"))
            return {
                name: Output(**{**fields, "stdout": (place / f"{name}.txt").read_text(encoding="utf-8")})
                for name, fields in rest.items()
            }
        text = place.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError, TypeError, AttributeError) as exc:
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


def line_of(finding: Finding) -> str:
    """Return a finding as one line for people: verdict, check, part, what was found, and what to do."""
    what = finding.reason or f"{finding.measured} {finding.unit}".rstrip()
    return f"{finding.verdict:10} {finding.check} {finding.subject}: {what} [{finding.action}]"
