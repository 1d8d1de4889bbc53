"""Whatever becomes of a tool's output, no parser raises and no sick host passes."""

from __future__ import annotations

import random

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examine import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.module_utils.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.registry import (
    CHECKS,
    STAGE_CHECKS,
    STRESS_CHECKS,
    parsers,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .cases import case, verdict
from .mutation import mutated
from .sick import SICK, Sick, healthy, known

ASKED = sorted({name for names in (*STAGE_CHECKS.values(), *STRESS_CHECKS.values()) for name in names})
# A seed that is slow to parse is no reason to try less.
PATIENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("check", ASKED)
def test_check_passes_its_healthy_host(check: str) -> None:
    assert verdict(check, {})[0] == PASS


@pytest.mark.parametrize("row", SICK, ids=lambda row: f"{row.check} by {row.old[:30]}")
def test_fault_is_found_while_the_output_is_whole(row: Sick) -> None:
    assert verdict(row.check, {row.probe: Output(row.text())})[0] == FAIL


def test_every_check_has_a_fault_to_find() -> None:
    assert {row.check for row in SICK} == set(ASKED)


def test_every_probe_has_a_healthy_output() -> None:
    assert {probe for check in ASKED for probe in CHECKS[check].PROBES} <= set(known())


@pytest.mark.parametrize("name", known())
@PATIENT
@given(rng=st.randoms(use_true_random=False))
def test_parser_raises_nothing_but_unreadable(name: str, rng: random.Random) -> None:
    text, _mutations = mutated(rng, healthy(name))
    try:
        parsers([name])[name].parse(Output(text))
    except Unreadable:
        return


@pytest.mark.parametrize("row", SICK, ids=lambda row: f"{row.check} by {row.old[:30]}")
@PATIENT
@given(rng=st.randoms(use_true_random=False))
def test_sick_host_never_passes(row: Sick, rng: random.Random) -> None:
    tried = case(rng, [row])
    assert tried.wrong == "", tried.mutations
