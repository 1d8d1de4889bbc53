"""What each rule says now of outputs that are always the same: digests that change when a rule does.

A rule is a check, a load or a stage, as ``examination/rules.py`` has them. Of a load it is what it does to a host.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in import run_finding
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CABLING_CHECK,
    CHECKS,
    RAIL_CHECKS,
    STORAGE_CHECKS,
    STRESS_CHECKS,
    STRESSES,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import LOAD, STAGE_RULES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import VERDICTS, Finding, merged

from tests.fuzz.cases import expect as healthy_expect
from tests.fuzz.cases import findings as said_of
from tests.fuzz.mutation import ALL, ended, mutated
from tests.fuzz.sick import SICK, healthy, known
from tests.isolation.fleet import FAULTS, Fleet, Spec, expectations
from tests.oracle import digest, entry
from tests.recorded.judged import ROWS, findings_of
from tests.unit.plugin_utils.fabric import test_rounds as fabric
from tests.unit.plugin_utils.storage import test_rounds as storage

# Of each sick output so many mutations: the oracle and the fuzz try more.
MUTATIONS = 4
HOSTS = 8
# Enough to tell the cases of one rule apart, of which the largest has 200, and for a table that people can compare.
INPUT_DIGITS = 8
VERDICT_DIGITS = 6


@dataclass
class Said:
    """What one rule said, case by case: of each a short digest of what it was asked, and one of what it said.

    A case is what was asked, by no name that somebody may change; ``names`` is for people.
    """

    cases: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, case: str, inputs: Any, findings: Iterable[Finding]) -> None:
        """Keep what was said of one case, without prose."""
        rows = [[each.check, each.subject, each.verdict, digest.value(each.measured)] for each in findings]
        self.keep(case, inputs, sorted(rows, key=digest.canonical))

    def keep(self, case: str, inputs: Any, said: Any) -> None:
        """Keep what was said of one case; raise ValueError where the same inputs gave something else before."""
        asked, came = digest.sha(inputs)[:INPUT_DIGITS], digest.sha(said)[:VERDICT_DIGITS]
        if self.cases.setdefault(asked, came) != came:
            raise ValueError(f"{case} and {self.names[asked]}: the same inputs, and not the same verdicts")
        self.names.setdefault(asked, case)


def versions() -> dict[str, int]:
    """Return the version of every rule."""
    return {
        **{name: check.RULES for name, check in CHECKS.items()},
        **{f"{LOAD}{name}": stress.RULES for name, stress in STRESSES.items()},
        **STAGE_RULES,
    }


def own() -> dict[str, Said]:
    """Return what every rule says of what lies in this checkout."""
    said: dict[str, Said] = {name: Said() for name in versions()}
    for check, case, outputs, variant in (*_healthy(), *_sick()):
        inputs = {name: vars(output) for name, output in outputs.items()}
        said[check].add(case, [variant, inputs], said_of(check, outputs, variant))
    texts, files = {name: healthy(name) for name in known()}, {"/proc/meminfo": healthy("meminfo")}
    for name in STRESS_CHECKS:
        settings = {"level": 3} if name == "dcgm_diag" else {}
        said[f"{LOAD}{name}"].keep("asked", "asked", entry.stress_asks(name, texts, files, healthy_expect(), settings))
    for stage, played in (("burn_in", _runs), ("fabric", _rails), ("storage", _saves), ("acceptance", _collectives)):
        for case, inputs, findings in played():
            said[stage].add(case, inputs, findings)
    return said


def recorded(place: Path) -> dict[str, Said]:
    """Return what the rules say of what real machines printed, of those that are asked."""
    said: dict[str, Said] = {}
    for row in sorted(ROWS, key=lambda row: (row.file, row.checks)):
        if not (place / row.file).exists():
            continue
        data = (place / row.file).read_bytes()
        output = vars(row.run(data)) if row.run else data.hex()
        inputs = [row.probe, row.checks, row.expect, output, *([vars(row.names(data))] if row.names else ())]
        # A rule that has nothing to say any more says something else.
        by_rule: dict[str, list[Finding]] = {_rule_of(check): [] for check in row.checks}
        for finding in findings_of(row, place):
            by_rule.setdefault(_rule_of(finding.check), []).append(finding)
        for rule, findings in by_rule.items():
            said.setdefault(rule, Said()).add(f"{row.file} {row.why}".strip(), inputs, findings)
    return said


def _rule_of(check: str) -> str:
    if check in CHECKS:
        return check
    if check in STORAGE_CHECKS:
        return "storage"
    return "fabric" if check in (*RAIL_CHECKS, CABLING_CHECK) else "acceptance"


def _healthy() -> Iterator[tuple[str, str, dict[str, Output], str]]:
    for check, variant in sorted({*((name, "") for name in CHECKS), *((row.check, row.variant) for row in SICK)}):
        names = (*CHECKS[check].PROBES, *getattr(CHECKS[check], "OPTIONAL_PROBES", ()))
        yield check, f"healthy {variant}", {name: Output(healthy(name, variant)) for name in names}, variant


def _sick() -> Iterator[tuple[str, str, dict[str, Output], str]]:
    for row in SICK:
        name = f"{row.probe} {digest.sha([row.old, row.new])} {row.variant}"
        for number in range(MUTATIONS):
            rng = random.Random(f"{row.check} {name} {number}")
            text, _ = mutated(rng, row.text(), ALL, row.place()) if number else (row.text(), "")
            output = ended(rng, text)[0] if number else Output(text)
            yield row.check, f"{name} {number}", {row.probe: output}, row.variant


def _runs() -> Iterator[tuple[str, Any, Iterable[Finding]]]:
    """Yield what burn-in says of its own run, and what it makes of findings on one part in a row."""
    for given in itertools.product((60.0,), (0.0, 59.9, 60.0, 61.0), ("", "stopped"), VERDICTS):
        yield f"run {given}", given, [run_finding(*given)]
    for before, now in itertools.product(VERDICTS, VERDICTS):
        pair = [Finding("x", "host", before, 1), Finding("x", "host", now, 2)]
        yield f"{before}, then {now}", [before, now], merged(pair[:1], pair[1:])


def _rails() -> Iterator[tuple[str, Any, Iterable[Finding]]]:
    sites = {"sound": fabric.Site, "crashed": lambda: fabric.Site(crashed={"n3"}), **dict(fabric.FAULTS)}
    for name, site in sites.items():
        yield from _of_nodes(name, site().conclude().findings)
        # The one that is sick alone under test, with nodes in service as partners.
        yield from _of_nodes(f"{name} alone", site().conclude(("n3",)).findings)


def _saves() -> Iterator[tuple[str, Any, Iterable[Finding]]]:
    faults: dict[str, dict[str, Any]] = {"sound": {}, "slow": {"gpu_3": storage.at(2.0)}, "silent": {"gpu_2": None}}
    # Data that is wrong for one of two, with a third that tells and without.
    faults.update(wrong=storage.disputed("gpu-3", "gpu-1", gpu_2=0), disputed=storage.disputed("gpu-3", "gpu-1"))
    for name, changes in faults.items():
        yield from _of_nodes(name, storage.walk(**changes)[0].findings)
        alone = storage.walk(storage.NODES[2:3], storage.NODES[:2], **changes)[0]
        yield from _of_nodes(f"{name} alone", alone.findings)


def _collectives() -> Iterator[tuple[str, Any, Iterable[Finding]]]:
    for fault, under_test in itertools.product(FAULTS, (HOSTS, 3, 1)):
        fleet = Fleet(Spec.usual(HOSTS, fault, 0.01), 1)
        nodes, partners = fleet.nodes[:under_test], fleet.nodes[under_test:]
        _, concluded = entry.acceptance(nodes, partners, expectations(fleet.spec), fleet.places(), fleet.run)
        findings = {node: [Finding(**each) for each in found] for node, found in concluded["findings"].items()}
        yield from _of_nodes(f"{fault} {under_test}", findings)


def _of_nodes(name: str, findings: Mapping[str, Iterable[Finding]]) -> Iterator[tuple[str, Any, Iterable[Finding]]]:
    for node, found in findings.items():
        yield f"{name} {node}", [name, node], found
