"""What burn-in found on the host in each state, held against states.yml."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).resolve().parents[1]
FOUND = HERE.parents[1] / "build" / "molecule" / "burn_in"
STATES = yaml.safe_load((HERE / "vars" / "states.yml").read_text(encoding="utf-8"))["lab_states"]


def evidence_of(name: str) -> dict[str, Any]:
    """Return the evidence of the run of this name."""
    return dict(json.loads((FOUND / f"{name}.json").read_text(encoding="utf-8")))


def told(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the findings on the host in this state that are not a pass."""
    evidence = evidence_of(state["name"])
    return [finding for finding in evidence["findings"] if finding["verdict"] != "pass"]


def fits(finding: dict[str, Any], expected: dict[str, str]) -> bool:
    """Return whether a finding is the expected one."""
    given = {**finding, "part": finding["subject"]}
    return all(fnmatchcase(given[key], value) for key, value in expected.items())


@pytest.mark.parametrize("state", STATES, ids=lambda state: state["name"])
def test_every_fault_is_found_on_its_part_with_its_action(state: dict[str, Any]) -> None:
    findings = told(state)
    for expected in state["found"]:
        assert any(fits(finding, expected) for finding in findings), (expected, findings)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state["name"])
def test_nothing_else_is_blamed(state: dict[str, Any]) -> None:
    """What hangs together with a missing part may be left open; only the part may be blamed."""
    others = [finding for finding in told(state) if not any(fits(finding, each) for each in state["found"])]
    assert [finding for finding in others if finding["verdict"] == "fail" or not state["found"]] == []


def test_a_dozen_faults_are_tried() -> None:
    assert sum(bool(state["found"]) for state in STATES) >= 12


def test_planned_reboot_is_gone_on_with_and_the_host_examined_again() -> None:
    evidence = evidence_of("planned_reboot")
    assert [finding for finding in evidence["findings"] if finding["verdict"] != "pass"] == []
    assert len(set(evidence["detail"]["boots"])) == 2
    # At the start, after the first step, after the reboot, after the last step.
    assert evidence["detail"]["examinations"] >= 4
