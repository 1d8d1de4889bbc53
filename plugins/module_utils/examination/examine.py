"""Running checks on one host: every probe once, every owed finding delivered, nothing unmeasured passed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding, merged
from .bounded_host import EXAMINATION_SECONDS, BoundedHost

# By check, part and quantity: numbers that nodes are compared by.
Measures = Mapping[str, Mapping[str, Mapping[str, float]]]


class Probe(Protocol):
    """One tool run or file read (a module in ``probes/``)."""

    NAME: str

    def collect(self, host: Host, expect: Expectations) -> Output:
        """Run the tool once; ``expect`` names the devices to ask for, where the tool has to be told."""

    def parse(self, output: Output) -> Any:
        """Turn its output into a value; raises Unreadable."""


class Stress(Protocol):
    """One load or active test (a module in ``stress/``): a probe that works on the host for as long as it is told.

    ``SETTINGS`` is the dataclass of what a step of a burn-in profile sets for it. One that tolerates nothing beside it
    has ``EXCLUSIVE = True``: no other stress, and no examination while it runs. ``RULES`` is the version of what it
    does to the host: raised, it is owed again wherever it ran before.
    """

    NAME: str
    RULES: int
    SETTINGS: type

    def collect(self, host: Host, expect: Expectations, seconds: float, settings: Any) -> Output:
        """Load the host for ``seconds`` (a tool with a length of its own: at most), then return what was measured."""

    def parse(self, output: Output) -> Any:
        """Turn its output into a value; raises Unreadable."""


class Parser(Protocol):
    """What a probe and a stress have in common: a name, and a way from output to value.

    One whose tool nobody has recorded on a real machine has ``FORMAT_UNVERIFIED = True``; ``PARTLY_UNVERIFIED`` names
    the part of its output of which that is true.
    """

    NAME: str

    def parse(self, output: Output) -> Any:
        """Turn the output into a value; raises Unreadable."""


class Check(Protocol):
    """One question (a module in ``checks/``).

    One that only an idle host can answer (no program on the GPUs) has ``IDLE_ONLY = True`` and is not asked under load.
    One whose numbers nodes are compared by has ``measures(values, expect)``, which returns them by part and quantity:
    None where these values are not to be compared, so that earlier ones stand.
    ``RULES`` is its version: raised whenever the same outputs come to another verdict, be it by a parser that it reads.
    """

    NAME: str
    RULES: int
    PROBES: tuple[str, ...]

    def subjects(self, expect: Expectations) -> Sequence[str]:
        """Return the parts on which this check owes a finding; none if it does not apply to the class."""

    def decide(self, values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
        """Judge the probes' values against the expectations; no clock, no host."""


@dataclass(frozen=True)
class Examination:
    """All that one examination gave: findings, each probe's value (None if unreadable) and raw output by probe name.

    ``measures`` has every check that owed measures, with none where it could not measure.
    """

    findings: tuple[Finding, ...]
    values: Mapping[str, Any]
    outputs: Mapping[str, Output]
    measures: Measures = field(default_factory=dict)


def collect(host: Host, probes: Iterable[Probe], expect: Expectations) -> dict[str, Output]:
    """Run each probe once and return the raw outputs by probe name; a host that hangs takes a bounded time."""
    bounded = BoundedHost(host, EXAMINATION_SECONDS)
    return {probe.NAME: _collected(probe, bounded, expect) for probe in probes}


def _collected(probe: Probe, host: BoundedHost, expect: Expectations) -> Output:
    host.next_probe()
    try:
        return probe.collect(host, expect)
    except Exception as exc:  # noqa: BLE001 -- a probe's fault must cost a verdict, not the examination
        return Output(rc=None, error=f"{probe.NAME}: {fault_of(exc)}")


def fault_of(exc: Exception) -> str:
    """Return what a probe, stress or check that raised has run into."""
    return f"{type(exc).__name__}: {exc}"


def judge(
    outputs: Mapping[str, Output],
    probes: Mapping[str, Parser],
    checks: Sequence[Check],
    expect: Expectations,
) -> Examination:
    """Judge raw outputs, fresh or stored: the same code serves an examination and the re-judging of an evidence bundle.

    A part on which a check owes a finding and gives none is ``incomplete``; so is every part of a check whose probe is
    unreadable or whose code raises. What could be read of an unreadable output (``Unreadable.read``) is judged for
    faults alone: they stand by name. A remark on it is told and ``incomplete``; no pass of it counts.
    """
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    partial: dict[str, Any] = {}
    optional = {name for check in checks for name in getattr(check, "OPTIONAL_PROBES", ()) if name in probes}
    for name in sorted({name for check in checks for name in check.PROBES} | optional | set(outputs)):
        values[name], reason, read = parsed(outputs.get(name), probes[name])
        if reason:
            reasons[name] = reason
        if read is not None:
            partial[name] = read
    findings: list[Finding] = []
    measures: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for check in checks:
        answers = _answers(check, values, reasons, partial, expect)
        if answers and hasattr(check, "measures"):
            measured, why = _measured(check, values, reasons, expect)
            measures |= {} if measured is None else {check.NAME: measured}
            answers = list(merged(answers, [_unmeasured(each, why) for each in answers if why]))
        findings += answers
    return Examination(tuple(_with_serials(findings, values)), values, outputs, measures)


def latest_measures(before: Measures, news: Measures) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """Return the measures with those of a later judgement, whole by check: one that could not measure has none."""
    return {check: parts for check, parts in {**before, **news}.items() if parts}


def _measured(
    check: Check, values: Mapping[str, Any], reasons: Mapping[str, str], expect: Expectations
) -> tuple[Mapping[str, Mapping[str, float]] | None, str]:
    """Return what a check measured, and why it could not, although it was given something to judge."""
    if any(name in reasons for name in check.PROBES):
        # Its findings say so.
        return {}, ""
    try:
        parts: dict[str, dict[str, float]] | None = check.measures(values, expect)  # type: ignore[attr-defined]
        if parts is None:
            return None, ""
        numbers = [(part, name, value) for part, each in parts.items() for name, value in each.items()]
    except Exception as exc:  # noqa: BLE001 -- as below
        return {}, f"its measures failed: {fault_of(exc)}"
    for part, name, value in numbers:
        if type(value) not in (int, float) or not math.isfinite(value):
            return {}, f"its measures failed: {name} of {part} is {value!r}, expected a finite number"
    return {part: each for part, each in parts.items() if each}, ""


def _unmeasured(finding: Finding, why: str) -> Finding:
    return Finding(finding.check, finding.subject, INCOMPLETE, reason=why, action="investigate")


def _with_serials(findings: Iterable[Finding], values: Mapping[str, Any]) -> list[Finding]:
    """Return the findings; what is wrong with a GPU names its serial, by which a repair is ordered."""
    gpus = getattr(values.get("nvidia_smi"), "gpus", ())
    serials = {f" {gpu.address}": f"serial {gpu.serial}" for gpu in gpus if gpu.serial}

    def named(finding: Finding) -> Finding:
        serial = next((serials[address] for address in serials if finding.subject.endswith(address)), "")
        if not serial or finding.verdict == PASS:
            return finding
        return replace(finding, reason=f"{finding.reason} ({serial})".lstrip())

    return [named(finding) for finding in findings]


def parsed(output: Output | None, probe: Parser) -> tuple[Any, str, Any]:
    """Return the value of an output, or None and why there is none; third what could be read of an unreadable one."""
    if output is None:
        return None, f"{probe.NAME} was not run", None
    unread = ""
    if output.timed_out or output.rc is None or output.error:
        unread = output.error or f"{probe.NAME} could not be run"
        if not output.stdout:
            return None, unread, None
    try:
        value = probe.parse(output)
    except Unreadable as exc:
        return None, unread or f"{probe.NAME}: {exc}", exc.read
    except Exception as exc:  # noqa: BLE001 -- a parser's fault must cost a verdict, not the examination
        return None, unread or f"{probe.NAME}: parser failed: {type(exc).__name__}: {exc}", None
    return (None, unread, None) if unread else (value, "", None)


def _answers(
    check: Check,
    values: Mapping[str, Any],
    reasons: Mapping[str, str],
    partial: Mapping[str, Any],
    expect: Expectations,
) -> list[Finding]:
    try:
        owed = list(check.subjects(expect))
    except Exception as exc:  # noqa: BLE001 -- as above
        return [Finding(check.NAME, "host", INCOMPLETE, reason=fault_of(exc), action="investigate")]
    if not owed:
        return []
    unreadable = [name for name in check.PROBES if name in reasons]
    given: list[Finding] = []
    why = "; ".join(reasons[name] for name in unreadable)
    if all(name in partial for name in unreadable):
        read = {**values, **{name: partial[name] for name in unreadable}}
        try:
            given = [_explained(finding, check, reasons) for finding in check.decide(read, expect)]
            if unreadable:
                given = [_told_by_a_part(finding, why) for finding in given if _speaks(finding)]
            else:
                why = "the check gave no finding on this part"
        except Exception as exc:  # noqa: BLE001 -- as above
            given = []
            why = "; ".join([*([why] if why else []), f"check failed: {fault_of(exc)}"])
    answered = {finding.subject for finding in given}
    missing_parts = [part for part in owed if part not in answered]
    silent = [Finding(check.NAME, part, INCOMPLETE, reason=why, action="investigate") for part in missing_parts]
    return given + [_explained(finding, check, reasons) for finding in silent]


def _speaks(finding: Finding) -> bool:
    """Return whether the finding is a fault or a remark: one more than that nothing was seen."""
    return finding.verdict == FAIL or (bool(finding.reason) and finding.action != "none")


def _told_by_a_part(finding: Finding, why: str) -> Finding:
    """Return a fault as it stands and a remark as no pass, with why the rest is unread."""
    reason = f"{finding.reason}; the rest is unread: {why}".removeprefix("; ")
    if finding.verdict == FAIL:
        return replace(finding, reason=reason)
    return replace(finding, verdict=INCOMPLETE, reason=reason, action="investigate")


def _explained(finding: Finding, check: Check, reasons: Mapping[str, str]) -> Finding:
    """Return the finding with the reasons of the probes that its check can do without (``OPTIONAL_PROBES``)."""
    why = [reasons[name] for name in getattr(check, "OPTIONAL_PROBES", ()) if name in reasons]
    if finding.verdict != INCOMPLETE or not why:
        return finding
    return replace(finding, reason=f"{finding.reason} ({'; '.join(why)})")
