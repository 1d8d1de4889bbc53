"""The test map names every directory of tests and every scenario, and parts that are in the budget."""

from __future__ import annotations

import re

import yaml

from .rooms import ROOT

PAGE = (ROOT / "docs/maintaining/tests.md").read_text(encoding="utf-8")


def test_every_directory_and_scenario_is_on_the_map() -> None:
    tests = [path.parent for path in (ROOT / "tests").glob("*/*.*") if path.suffix != ".pyc"]
    scenarios = [path.parent for path in (ROOT / "molecule").glob("*/molecule.yml")]
    names = sorted({path.relative_to(ROOT).as_posix() for path in (*tests, *scenarios)})
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_parts_are_in_the_budget() -> None:
    budget = yaml.safe_load((ROOT / "tests/budget.yml").read_text(encoding="utf-8"))
    parts = set(re.findall(r"\| `(\w+)` \|$", PAGE, re.MULTILINE))
    assert len(parts) > 10
    assert parts - {*budget["test"], *budget["test_long"]} == set()
