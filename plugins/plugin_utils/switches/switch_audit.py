"""The audit of many switches at a time: ask, read, judge, and what is worth telling of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, VERDICTS, Finding, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches import cumulus, eos, sonic
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_choice import chosen
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_judging import QUESTIONS, judge, unasked
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import SwitchPlan
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_session import (
    Limits,
    Login,
    SessionError,
    ask,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import Answers

SYSTEMS: Mapping[str, ModuleType] = {"cumulus": cumulus, "eos": eos, "sonic": sonic}


@dataclass(frozen=True)
class Asking:
    """How switches are asked: ``parallel`` at a time, without the questions in ``leave_out``."""

    login: Login
    limits: Limits = field(default_factory=Limits)
    parallel: int = 32
    leave_out: Collection[str] = ()


@dataclass(frozen=True)
class Audited:
    """What came of one switch: what is not right, and how many questions were answered rightly."""

    name: str
    system: str
    findings: tuple[Finding, ...]
    passed: Mapping[str, int]

    @property
    def verdict(self) -> str:
        return worst([*(finding.verdict for finding in self.findings), *([PASS] if self.passed else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return the switch as it stands in the report."""
        return {
            "system": self.system,
            "verdict": self.verdict,
            "passed": dict(sorted(self.passed.items())),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def commands_for(plan: SwitchPlan) -> dict[str, str]:
    """Return every command that the switch is asked, by name; nothing else is ever sent to it."""
    system = SYSTEMS[plan.switch.system]
    of_ports = {
        f"{name} {port}": command.format(port=port)
        for port in plan.ports
        for name, command in system.PORT_COMMANDS.items()
    }
    return {**system.COMMANDS, **of_ports}


def audited(plan: SwitchPlan, asking: Asking) -> Audited:
    """Return what came of one switch. Whatever goes wrong is a finding about it."""
    switch = plan.switch
    system = SYSTEMS[switch.system]
    commands = commands_for(plan)
    try:
        texts = ask(switch.address or "", asking.login, asking.limits, commands, system.PREPARE)
        findings = judge(plan, system.read(Answers(commands, texts), plan.ports), asking.leave_out)
    except SessionError as exc:
        findings = [unasked(plan, str(exc))]
    passed = Counter(finding.check for finding in findings if finding.verdict == PASS)
    wrong = sorted((each for each in findings if each.verdict != PASS), key=lambda each: VERDICTS.index(each.verdict))
    return Audited(switch.name, switch.system, tuple(wrong), passed)


def audit(plans: Collection[SwitchPlan], asking: Asking, tell: Callable[[str], None] = lambda _: None) -> list[Audited]:
    """Return what came of each switch, in the plans' order; ``tell`` gets a person's lines as soon as there are any."""
    found: dict[str, Audited] = {}
    with ThreadPoolExecutor(max_workers=asking.parallel) as pool:
        runs = [pool.submit(audited, plan, asking) for plan in plans]
        for run in as_completed(runs):
            result = run.result()
            found[result.name] = result
            for line in lines_of(result):
                tell(line)
    return [found[plan.switch.name] for plan in plans]


def lines_of(result: Audited) -> Iterator[str]:
    """Yield what a person reads about one switch: a line for the switch, then one for all ports of a like finding."""
    yield f"{result.name} ({result.system}): {result.verdict}, {sum(result.passed.values())} answers right"
    like: dict[tuple[Any, ...], list[str]] = {}
    for each in result.findings:
        key = (each.verdict, each.check.removeprefix("switch_"), each.measured, each.expected, each.unit, each.reason)
        like.setdefault(key, []).append(each.subject.removeprefix(f"{result.name} "))
    for (verdict, question, measured, expected, unit, reason), subjects in like.items():
        where = ", ".join(subjects[:8]) + (f" and {len(subjects) - 8} more" if len(subjects) > 8 else "")
        values = "" if measured is None else f"found {measured}, "
        wanted = "" if expected is None else f"expected {expected}{f' {unit}' if unit else ''}"
        said = "; ".join(part for part in (f"{values}{wanted}", reason if measured is None else "") if part)
        yield f"  {verdict}: {where}: {question}: {said}"


@dataclass(frozen=True)
class Report:
    """What came of the switches of a fleet; ``silent`` are those that were not asked."""

    fleet: Fleet
    results: Sequence[Audited]
    silent: Sequence[str]
    left_out: Collection[str]

    @property
    def verdict(self) -> str:
        return worst(result.verdict for result in self.results)

    @property
    def counts(self) -> dict[str, int]:
        """The number of switches by verdict."""
        verdicts = Counter(each.verdict for each in self.results)
        return {verdict: verdicts[verdict] for verdict in VERDICTS}

    def said(self) -> str:
        """Return the counts as people read them."""
        counted = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items() if count)
        return f"{counted} of {len(self.results)} switches asked"

    def to_dict(self, now: float) -> dict[str, Any]:
        """Return the report as plain data; ``now`` is in seconds since the epoch."""
        return {
            "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            "cluster": self.fleet.cluster,
            "verdict": self.verdict,
            "questions": {name: text for name, text in QUESTIONS.items() if name not in self.left_out},
            "left_out": sorted(self.left_out),
            "ecn_judged": bool(self.fleet.fabric.dcqcn),
            "not_asked": list(self.silent),
            "switches": {result.name: result.to_dict() for result in self.results},
        }


def report_of(fleet: Fleet, names: Sequence[str], asking: Asking, tell: Callable[[str], None]) -> Report:
    """Return what came of the named switches, of all where none is named. Raises SwitchChoiceError."""
    plans, silent = chosen(fleet, names)
    results = audit(plans, asking, tell)
    for name in silent:
        tell(f"{name}: not asked, as it has no address in fabric.switches")
    return Report(fleet, results, silent, asking.leave_out)
