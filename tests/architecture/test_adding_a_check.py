"""Whoever follows the page on adding a check gets that check: asked, owed, shipped, documented and fuzzed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .pages import edits, written
from .rooms import ROOT

PAGE = (ROOT / "docs/maintaining/adding_a_check.md").read_text(encoding="utf-8")
NAME = "nic_guid"
COPIED = ("plugins", "tests", "docs", "changelogs", "collections", "galaxy.yml", "pyproject.toml")
MOST_FILES = 5
# What burn-in owes of a class, and what the program for nodes says of a healthy and of a sick output.
SHOWN = """
import json, pathlib
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import write_outputs
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build
from tests.fuzz.cases import expect
from tests.fuzz.sick import SICK, healthy
from tests.typed import typed
(row,) = [row for row in SICK if row.check == "nic_guid"]
pathlib.Path("muster").write_bytes(build())
pathlib.Path("expect.json").write_text(json.dumps({**expect(), "fabric": None}))
for place, text in (("healthy", healthy("infiniband")), ("sick", row.text())):
    outputs = {"infiniband": Output(text), "rail_names": Output(healthy("rail_names"))}
    write_outputs(pathlib.Path(place), outputs)
owed = [part for check, part in registry.required("burn_in", typed(expect())) if check == "nic_guid"]
print(json.dumps({"stages": [s for s, names in registry.STAGE_CHECKS.items() if "nic_guid" in names], "owed": owed}))
"""


def test_page_touches_few_files() -> None:
    paths = [edit.path for edit in edits(PAGE)]
    assert len(paths) == len(set(paths)) <= MOST_FILES, paths
    assert all((ROOT / path).is_file() for path in written(PAGE)), written(PAGE)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the collection in which the page was followed."""
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(source, tree / name)
    for edit in edits(PAGE):
        edit.apply(tree)
    run(tree, shlex.split(written(PAGE)["docs/checks.md"].partition("python ")[2]))
    return tree


def run(tree: Path, words: list[str], status: int = 0) -> str:
    """Run Python in a tree and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'collections'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    # Options of the run that this is a part of.
    environment.pop("PYTEST_ADDOPTS", None)
    argv = [sys.executable, *words]
    done = subprocess.run(argv, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def test_check_is_asked_owed_and_shipped(tree: Path) -> None:
    assert json.loads(run(tree, ["-c", SHOWN])) == {
        "stages": ["burn_in"],
        "owed": [f"nic rail{rail}" for rail in range(8)],
    }
    judged = ["muster", "judge", "--expect", "expect.json", "--check", NAME]
    run(tree, [*judged, "healthy"])
    said = run(tree, [*judged, "sick"], status=1)
    assert "GUID b83f:d203:001a:7c11 of rail 2 (mlx5_2) is that of 2 devices" in said


def test_its_own_tests_and_those_of_all_checks_pass(tree: Path) -> None:
    chosen = f"{NAME} or healthy_host_answers or stands_in_no_table or page_lists or every_check"
    files = (f"tests/unit/module_utils/checks/test_{NAME}.py", "tests/unit/module_utils/test_registry.py")
    made = ("tests/fuzz/test_fuzz.py", "tests/meaning/test_meaning.py")
    run(tree, ["-m", "pytest", *files, "tests/unit/docs/test_checks.py", *made, "-k", chosen])


def test_files_of_the_page_are_in_good_style(tree: Path) -> None:
    python = [edit.path for edit in edits(PAGE) if edit.path.endswith(".py")]
    run(tree, ["-m", "ruff", "check", "--no-cache", *python])
    run(tree, ["-m", "ruff", "format", "--no-cache", "--check", *python])
    (fragment,) = [edit.text for edit in edits(PAGE) if edit.path.startswith("changelogs/")]
    assert list(yaml.safe_load(fragment)) == ["minor_changes"]
