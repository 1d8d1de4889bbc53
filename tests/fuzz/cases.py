"""One fuzz case: a sick output, mutated, judged; it must neither raise nor pass."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examine import Unreadable, judge
from ansible_collections.muster.cluster.plugins.module_utils.finding import PASS, worst
from ansible_collections.muster.cluster.plugins.module_utils.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.registry import CHECKS, parsers
from ansible_collections.muster.cluster.plugins.plugin_utils.hardware_class import expectations_of

from .mutation import ALL, KEEPING, mutated
from .sick import SICK, Sick, healthy, known


@dataclass(frozen=True)
class Case:
    """What was done to which output, and what is wrong with our answer ("" if nothing)."""

    sick: Sick
    mutations: str
    text: str
    wrong: str


@functools.cache
def expect() -> dict[str, Any]:
    """Return the class that the healthy outputs are of: an HGX H100 with the lab's firmware and BMC."""
    lab = expectations_of("lab_h100", {}, "fuzz")
    return {**expectations_of("hgx_h100", {}, "fuzz"), **{section: lab[section] for section in ("firmware", "bmc")}}


def verdict(check: str, given: dict[str, Output]) -> tuple[str, str]:
    """Return the check's worst verdict on healthy outputs with ``given`` in their place, and what it says."""
    names = (*CHECKS[check].PROBES, *getattr(CHECKS[check], "OPTIONAL_PROBES", ()))
    outputs = {name: Output(healthy(name)) for name in names if name in known()}
    findings = judge({**outputs, **given}, parsers(names), [CHECKS[check]], expect()).findings
    said = next((finding.reason for finding in findings if "failed: " in finding.reason), "")
    return worst(finding.verdict for finding in findings), said


def case(rng: random.Random, rows: Sequence[Sick] = SICK) -> Case:
    """Return one case."""
    sick = rng.choice(rows)
    text, mutations = mutated(rng, sick.text(), KEEPING if sick.log else ALL)
    try:
        parsers([sick.probe])[sick.probe].parse(Output(text))
    except Unreadable:
        # judge answers incomplete; it has a test of its own.
        return Case(sick, mutations, text, "")
    except Exception as exc:  # noqa: BLE001 -- finding these is what this is for
        return Case(sick, mutations, text, f"parser raised {type(exc).__name__}: {exc}")
    reached, said = verdict(sick.check, {sick.probe: Output(text)})
    if "check failed: " in said:
        return Case(sick, mutations, text, said)
    return Case(sick, mutations, text, "false pass" if reached == PASS else "")
