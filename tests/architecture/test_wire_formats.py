"""The page on wire formats has the keys that the code writes and reads, and its examples can be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in import _begun, _state
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import Plan, steps_of
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_record import _NUMBERS
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected, _manifest_text
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import (
    KINDS,
    pack_spec,
    read_program,
    unpack_spec,
)
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_results import Results, keys_of
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.heartbeat import Heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import not_started
from ansible_collections.muster.cluster.plugins.module_utils.rounds.storage_job import StorageAnswer
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import parse_gate_file
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import decode
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Verdict

from .rooms import ROOT

PAGE = (ROOT / "docs/maintaining/wire_formats.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
EVIDENCE = Evidence("id", "node", "preflight", 1.0, None, "boot", {}, "digest")


def keys(section: str, table: int = 0) -> set[str]:
    """Return the names in the first column of a section's table."""
    tables = re.findall(r"^\| key \|.*\n\|[-|]+\|\n((?:\|.*\n?)+)", SECTIONS[section], re.MULTILINE)
    return {name for row in tables[table].splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def example(section: str) -> str:
    """Return the one example of a section."""
    (found,) = re.findall(r"```\w+\n(.*?)```", SECTIONS[section], re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("Finding", Finding.__dataclass_fields__),
        ("Evidence", EVIDENCE.to_dict()),
        ("Archive of a host", json.loads(_manifest_text(Collected("gpu-01", 1.0, {})))),
        ("Burn-in plan", Plan.__dataclass_fields__),
        ("Heartbeat", json.loads(Heartbeat(1.0, "boot", "pass").to_json())),
        ("Observation", not_started(["gpu-01"], "busy")),
        ("verdicts.json", Verdict("gpu-01", "admitted", "", ()).to_dict()),
    ],
)
def test_tables_have_the_keys(section: str, expected: Iterable[str]) -> None:
    assert keys(section) == set(expected)


def test_state_of_a_burn_in_has_what_readers_need() -> None:
    evidence = Evidence(**{**vars(EVIDENCE), "detail": {"elapsed_seconds": 0, "examinations": 0}})
    assert keys("Burn-in state") >= {
        *_state("id", "node", "night", evidence, "running"),
        *_NUMBERS,
        "kept",
        "next_step",
    }


def test_detail_of_a_burn_in_is_told() -> None:
    host = SimpleNamespace(read=lambda path: Output("boot\n"))
    around: Any = SimpleNamespace(host=host, clock=SimpleNamespace(wall=lambda: 1.0), version="0")
    begun = _begun(Plan("id", "gpu-01", "night", (), 60.0, {}), around)
    assert [name for name in begun.detail if f"`{name}`" not in SECTIONS["Evidence"]] == []


def test_steps_of_the_plan_can_be_carried_out() -> None:
    plan = json.loads(example("Burn-in plan"))
    assert set(plan) == {each.name for each in fields(Plan)}
    assert [step.name for step in steps_of(plan["steps"])][2:] == ["warm reboot", "examine"]


def test_program_can_be_walked_and_its_keys_are_told() -> None:
    spec = json.loads(example("Program of collectives"))
    assert unpack_spec(pack_spec(spec)) == spec
    moves = read_program(spec["program"], len(spec["nodes"]))
    assert {move.kind for move in moves} == {*KINDS}
    assert {key for move in spec["program"]["moves"] for key in move} == keys("Program of collectives")


def test_results_have_the_keys() -> None:
    nodes = ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    moves = read_program(json.loads(example("Program of collectives"))["program"], len(nodes))
    results = Results(nodes, moves, 1)
    for node in nodes:
        told = {
            move.name: {"bytes": 4, **{key: [5] * move.steps * (len(move.sizes) or 1) for key in keys_of(move)}}
            for move in moves
        }
        assert results.take(node, 0, told, False) == ""
    assert {key for result in results.all() for key in result} == keys("Observation", 1)


def test_answers_have_the_keys() -> None:
    records, faults = decode(example("Answer lines"))
    assert (len(records), faults) == (1, [])
    told = dict(re.findall(r"^- (\w+): ((?:.|\n  )*)", SECTIONS["Answer lines"], re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", told["storage"])) == {"node", *(each.name for each in fields(StorageAnswer))}


def test_gate_file_is_one_that_muster_writes() -> None:
    gate = parse_gate_file(example("Gate file"))
    assert gate.render() == example("Gate file")
    assert gate.generation == 41
