"""One fuzz case: a sick output, mutated, judged; it must neither raise nor pass."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import Parser, judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS, STAND_INS, parsers
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED, laid
from tests.typed import typed

from .mutation import ALL, ended, mutated
from .sick import FABRIC, SICK, VARIANTS, Sick, healthy, known

# The probe in whose place another one's output is judged.
_FOR = {other: name for stand_ins in STAND_INS.values() for name, other in stand_ins.items()}


@dataclass(frozen=True)
class Case:
    """What was done to which output, and what is wrong with our answer ("" if nothing)."""

    sick: Sick
    mutations: str
    output: Output
    wrong: str


@functools.cache
def expect(variant: str = "") -> dict[str, Any]:
    """Return the class that the healthy outputs are of: an HGX H100 with the lab's firmware, BMC and NICs."""
    lab = expectations_of("lab_h100", {}, "fuzz")
    own = {section: lab[section] for section in ("firmware", "bmc", "nic")}
    return laid({**expectations_of("hgx_h100", PLACED, "fuzz"), **own, "fabric": FABRIC}, VARIANTS[variant].expect)


class _Once:
    """A parser that parses the same healthy text once."""

    def __init__(self, parser: Parser) -> None:
        self.NAME, self._parser, self._values = parser.NAME, parser, dict[str, Any]()

    def parse(self, output: Output) -> Any:
        """Return what the parser does."""
        if output.rc or output.stdout not in self._values:
            value = self._parser.parse(output)
            if output.rc or output.stdout != healthy(self.NAME):
                return value
            self._values[output.stdout] = value
        return self._values[output.stdout]


@functools.cache
def _parser(name: str) -> _Once:
    return _Once(parsers([name])[name])


def findings(check: str, given: Mapping[str, Output], variant: str = "") -> list[Finding]:
    """Return what the check says of healthy outputs with ``given`` in their place."""
    names = (*CHECKS[check].PROBES, *getattr(CHECKS[check], "OPTIONAL_PROBES", ()))
    outputs = {name: Output(healthy(name, variant)) for name in names if name in known()}
    readers = {name: _parser(name) for name in names}
    for name, output in given.items():
        place = name if name in names else _FOR[name]
        outputs[place], readers[place] = output, _parser(name)
    return list(judge(outputs, readers, [CHECKS[check]], typed(expect(variant))).findings)


def verdict(check: str, given: Mapping[str, Output], variant: str = "") -> str:
    """Return the worst verdict of ``findings``."""
    return worst(finding.verdict for finding in findings(check, given, variant))


def case(rng: random.Random, rows: Sequence[Sick] = SICK) -> Case:
    """Return one case."""
    sick = rng.choice(rows)
    text, mutations = mutated(rng, sick.text(), ALL, sick.place())
    output, end = ended(rng, text)
    said = findings(sick.check, {sick.probe: output}, sick.variant)
    raised = next((one.reason for one in said if "parser failed: " in one.reason or "check failed: " in one.reason), "")
    passed = worst(one.verdict for one in said) == PASS and sick.told(output.stdout)
    wrong = raised or ("false pass" if passed else "")
    return Case(sick, mutations + end, output, wrong)


def raised(name: str, text: str) -> str:
    """Return what a parser raises besides Unreadable, "" if nothing."""
    try:
        parsers([name])[name].parse(Output(text))
    except Unreadable:
        return ""
    except Exception as exc:  # noqa: BLE001 -- finding these is what this is for
        return f"{type(exc).__name__}: {exc}"
    return ""
