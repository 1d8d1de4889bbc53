"""The test stays inside its budget, and nothing that is run stands outside of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import parts
from tests.parts import BUDGET as FILE
from tests.parts import failing_lines, main, read_budget

ROOT = Path(__file__).resolve().parents[2]
BUDGET = read_budget(FILE)
ALL = (*BUDGET.test, *BUDGET.test_long)
LIMIT_SECONDS, QUICK_SECONDS = 4200, 280


def recipes() -> dict[str, str]:
    """Return the commands of each target of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z-]+):[^=\n]*\n((?:\t.*\n)*)", text, re.MULTILINE))


def scenarios(chosen: tuple[parts.Part, ...], main_road: bool | None = None) -> set[str]:
    """Return the scenarios that parts run, those that run them whole or shortened where that is asked for."""
    return {
        part.run.rpartition(" ")[2]
        for part in chosen
        if part.run.startswith("molecule test -s ") and main_road in (None, part.main_road)
    }


def test_parts_sum_to_no_more_than_their_limits() -> None:
    assert BUDGET.limit_seconds == LIMIT_SECONDS
    assert sum(part.seconds for part in BUDGET.test) <= LIMIT_SECONDS
    assert sum(part.seconds for part in BUDGET.parts("quick")) <= QUICK_SECONDS


def test_names_are_unique_and_quick_is_part_of_test() -> None:
    assert len({part.name for part in ALL}) == len(ALL)
    assert set(BUDGET.quick) <= {part.name for part in BUDGET.test}


@pytest.mark.parametrize("name", ["test", "quick", "test-long"])
def test_make_runs_nothing_beside_the_parts(name: str) -> None:
    assert recipes()[name] == f"\t@$(PARTS) {name}\n"


# What people use besides, and what runs the parts.
NO_TESTS = {
    *("help", "demo", "recorded", "lab", "lab-down", "bench", "bench-full", "clean", "contracts-page"),
    *("test", "quick", "test-long"),
}


def test_every_other_target_is_a_part() -> None:
    assert set(recipes()) - NO_TESTS == {part.run.removeprefix("make ") for part in ALL if part.run.startswith("make ")}


def test_every_folder_of_tests_is_run_by_a_target() -> None:
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    run = set(re.findall(r"\btests/([a-z_]+)", "".join(recipes().values())))
    assert folders <= run


def test_every_scenario_is_run_and_whole_somewhere() -> None:
    declared = {path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")}
    assert scenarios(ALL, main_road=False) == declared
    # The chain of `default` is that of survival's demo, on the same hosts.
    assert scenarios(BUDGET.test) >= declared - {"default", "storage_vm", "slurm_vm", "slurm_vm_debian_13"}, (
        "a new scenario has its main road in make test"
    )


@pytest.mark.parametrize("scenario", sorted(scenarios(ALL, main_road=True)))
def test_shortened_scenario_has_a_main_road(scenario: str) -> None:
    tests = (ROOT / "molecule" / scenario / "tests").glob("test_*.py")
    assert any("@pytest.mark.main_road" in path.read_text(encoding="utf-8") for path in tests)


@pytest.fixture
def budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A budget file of its own; logs and figures go beside it."""
    file = tmp_path / "budget.yml"
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    monkeypatch.setattr(parts, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(parts, "TIMES", tmp_path / "times.json")
    monkeypatch.setattr(parts, "BUDGET", file)
    monkeypatch.setattr(parts, "BENCH", tmp_path / "bench.json")
    return file


def test_failed_part_stops_no_other_and_is_named_with_its_lines(
    budget: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget.write_text(
        "limit_seconds: 2\nquick: [good]\ntest_long: {}\ntest:\n"
        "  bad: {seconds: 1, run: \"sh -c 'echo noise; echo FAILED test_x - no; exit 3'\"}\n"
        "  good: {seconds: 1, run: 'sh -c \"echo $PYTEST_ADDOPTS\"', main_road: true}\n"
    )
    assert main(["test"]) == 1
    said = capsys.readouterr().out
    assert "  FAILED test_x - no\n" in said
    assert "noise" not in said
    assert "failed: bad" in said
    records = json.loads((budget.parent / "times.json").read_text())["parts"]
    assert {name: record["status"] for name, record in records.items()} == {"bad": 3, "good": 0}
    assert (budget.parent / "logs/good.log").read_text() == "-m main_road\n"
    assert not (budget.parent / "bench.json").exists(), "the time of a run that failed is no figure"


def test_what_runs_beside_container_hosts_leaves_them_half_of_the_cores(
    budget: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "as the Makefile has it")
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    told = "seconds: 1, run: 'sh -c \"echo $PYTEST_XDIST_AUTO_NUM_WORKERS\"'"
    budget.write_text(
        f"limit_seconds: 2\nquick: [beside]\ntest_long: {{}}\n"
        f"test:\n  beside: {{{told}, beside: true}}\n  hosts: {{{told}}}\n  kernels: {{{told}, alone: true}}\n"
    )
    logs = {name: budget.parent / f"logs/{name}.log" for name in ("beside", "hosts", "kernels")}
    assert main(["test"]) == 0
    assert {name: log.read_text() for name, log in logs.items()} == {
        "beside": "3\n",
        "hosts": "as the Makefile has it\n",
        "kernels": "as the Makefile has it\n",
    }
    assert main(["quick"]) == 0
    assert logs["beside"].read_text() == "as the Makefile has it\n", "nothing else runs"


def test_time_of_a_list_that_passed_is_a_figure(budget: Path) -> None:
    budget.write_text("limit_seconds: 2\nquick: [a]\ntest_long: {}\ntest: {a: {seconds: 1, run: 'true'}}\n")
    assert main(["quick"]) == 0
    assert set(json.loads((budget.parent / "bench.json").read_text())) == {"quick_seconds"}


def test_log_without_a_failing_line_shows_its_end() -> None:
    assert failing_lines("a\n\n\x1b[31mb\x1b[0m\n") == ["a", "b"]
