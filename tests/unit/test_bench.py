"""A bench ends with every figure, whatever becomes of its parts, and goes on where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.__main__ import FULL, PARTS, Part, main

WRITE = "import json, pathlib, sys; pathlib.Path(sys.argv[-1].partition('=')[2]).write_text(json.dumps({figures}))"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where parts run and write, of a commit without changes."""
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "PLACE", tmp_path / "parts")
    monkeypatch.setattr(bench, "BENCH", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "commit", lambda: "abc")
    monkeypatch.setattr("tests.figures.commit", lambda: "abc")
    return tmp_path


def part(place: Path, name: str, figures: dict[str, object], status: int = 0) -> Part:
    """Write a program that measures, and return its part, which owes the figure of its own name."""
    text = WRITE.format(figures=figures) + f"; pathlib.Path('ran_{name}').write_text('x'); sys.exit({status})"
    (place / f"{name}.py").write_text(text)
    return Part(name, (name,), (name,), seed=7)


def figures_of(place: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((place / "bench.json").read_text())
    return found


def test_failed_part_stops_no_other_and_leaves_figures_without_a_value(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"value": 3, "unit": "s"}
    parts = (part(place, "bad", {}, 4), part(place, "silent", {}), part(place, "good", {"good": good}))
    monkeypatch.setattr(bench, "PARTS", parts)
    assert main([]) == 1
    assert figures_of(place) == {
        "bad": {"value": None, "unit": "part bad ended with status 4", "of": "make bench", "commit": "abc"},
        "silent": {"value": None, "unit": "not measured", "of": "make bench", "commit": "abc"},
        "good": {**good, "of": "make bench", "commit": "abc"},
    }
    said = capsys.readouterr().out
    assert ("FAILED bad" in said, "FAILED silent" in said, "FAILED good" in said) == (True, True, False)
    record = json.loads((place / "parts/good.json").read_text())
    assert (record["commit"], record["seed"], record["status"], record["of"]) == ("abc", 7, 0, "make bench")


def test_part_that_measured_a_wrong_case_keeps_its_figure_and_stops_no_other(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, good = {"value": 1, "unit": "cases"}, {"value": 3, "unit": "s"}
    parts = (part(place, "wrong", {"wrong": wrong}, 1), part(place, "good", {"good": good}))
    monkeypatch.setattr(bench, "PARTS", parts)
    assert main([]) == 1
    assert {name: figure["value"] for name, figure in figures_of(place).items()} == {"wrong": 1, "good": 3}
    assert "FAILED wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("known", "again"),
    [
        ({"commit": "abc", "status": 0, "figures": {"one": {"value": 2, "unit": "s"}}}, False),
        # It missed its target, and would again.
        ({"commit": "abc", "status": 1, "figures": {"one": {"value": 2, "unit": "s"}}}, False),
        ({"commit": "abc", "status": 1, "figures": {"one": {"value": None, "unit": "not measured"}}}, True),
        ({"commit": "older", "status": 0, "figures": {"one": {"value": 2, "unit": "s"}}}, True),
        (None, True),
    ],
)
def test_full_bench_runs_again_what_this_commit_has_not_finished(
    place: Path, monkeypatch: pytest.MonkeyPatch, known: dict[str, object] | None, again: bool
) -> None:
    monkeypatch.setattr(bench, "FULL", (one := part(place, "one", {"one": {"value": 1, "unit": "s"}}),))
    if known:
        one.record.parent.mkdir()
        one.record.write_text(json.dumps(known))
    assert main(["--full"]) == (0 if again or not known else known["status"])
    assert (place / "ran_one").exists() == again
    assert figures_of(place)["one"]["value"] == (1 if again else 2)
    assert figures_of(place)["one"]["of"] == "make bench-full"


def test_changed_files_are_never_taken_for_their_commit() -> None:
    assert not bench.finished(PARTS[0], "abc+")


def test_parts_and_figures_have_names_of_their_own() -> None:
    for parts in (PARTS, FULL):
        assert len({part.name for part in parts}) == len(parts)
        figures = [figure for part in parts for figure in part.figures]
        assert len(set(figures)) == len(figures)
    # The full bench tries ten times as many cases of the fuzz: the same figures, of more.
    both = {figure for part in PARTS for figure in part.figures} & {figure for part in FULL for figure in part.figures}
    assert {figure.partition("_")[0] for figure in both} == {"fuzz"}
    assert not {part.name for part in PARTS} & {part.name for part in FULL}


def test_ratios_say_which_way_they_go() -> None:
    names = {figure for part in PARTS for figure in part.figures}
    assert {name for name in names if "_vs_" in name} <= {"slurm_second_vs_before"}


def test_full_bench_owes_what_the_simulated_fleets_measure() -> None:
    from tests.isolation.__main__ import figures, options_of  # noqa: PLC0415 -- with its simulator only here

    for part in (each for each in FULL if each.argv[0] == "tests.isolation"):
        options = options_of([*part.argv[1:], "--bench=unused"])
        assert options.jobs >= 1
        assert set(figures({"cells": []}, [], f"isolation_{options.cells}")) == set(part.figures)
