"""The simulator keeps its truth to itself, says what it measured, and its rates are those of what was played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.isolation.__main__ import interval, main, missed
from tests.isolation.campaign import Server, play
from tests.isolation.fleet import FAULTS, Fleet, Spec, as_json


def test_truth_is_told_by_another_process_and_only_once_all_is_concluded() -> None:
    with Server() as server:
        nodes, places = server.ask("new", Spec.usual(8, "one_slow_10", 0.01), 1)
        assert server.process.pid
        assert sorted(places) == nodes
        # Nothing but a conclusion opens it.
        assert server.ask("truth") is None
        truth = server.ask("concluded", {})
        assert len(truth["bad"]) == 1
        assert server.ask("concluded", {}) is None


def test_same_seed_is_the_same_campaign() -> None:
    spec = Spec.usual(8, "five_slow_10", 0.01)
    with Server() as server:
        one, other, third = (play(server, spec, seed) for seed in (3, 3, 4))
    assert (one.rounds, one.tests, one.minutes) == (other.rounds, other.tests, other.minutes)
    assert one.detected == third.detected


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_somebody_of_whom_it_is_true(fault: str) -> None:
    truth = Fleet(Spec.usual(32, fault, 0.01), 1).truth
    assert bool(truth.bad or truth.held or truth.gone) == (fault != "clean")


def test_observations_are_json_with_null_for_who_sits_out() -> None:
    fleet = Fleet(Spec.usual(5, "clean", 0.01), 1)
    phase = {"name": "walk", "kind": "pairs", "sizes": [65536], "shifts": [0], "seconds": 30}
    (item,) = fleet.run({"groups": [fleet.nodes], "program": {"moves": [phase]}})
    rows = json.loads(json.dumps(as_json(item)))["results"][0]["ns"]
    assert sum(row is None for row in rows) == 1
    assert all(isinstance(value, int) for row in rows if row for value in row)


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 10_000, 0.0, 0.000384), (10_000, 10_000, 0.999616, 1.0), (5, 10, 0.236593, 0.763407)],
)
def test_interval_is_wilsons(hits: int, total: int, low: float, high: float) -> None:
    found = interval(hits, total)
    assert (found["low"], found["high"]) == (pytest.approx(low, abs=1e-5), pytest.approx(high, abs=1e-5))


def test_command_writes_cells_in_the_published_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "isolation.json"
    arguments = ["--hosts", "8", "--fault", "clean,one_pair", "--noise", "0.01", "--fleets", "2", "--out", str(out)]
    assert main(arguments) == 0
    cells = json.loads(out.read_text(encoding="utf-8"))["cells"]
    assert [(cell["hosts"], cell["fault"], cell["noise"], cell["fleets"]) for cell in cells] == [
        (8, "clean", 0.01, 2),
        (8, "one_pair", 0.01, 2),
    ]
    for cell in cells:
        assert set(cell["detected"]) == set(cell["false_alarm"]) == {"rate", "low", "high"}
        assert all(set(cell[key]) == {"median", "max"} for key in ("rounds", "tests", "minutes"))
    assert "one_pair" in capsys.readouterr().out


def test_missed_target_is_told() -> None:
    cell = {
        "hosts": 232,
        "fault": "one_slow_10",
        "noise": 0.01,
        "detected": interval(90, 100),
        "false_alarm": interval(0, 100),
        "rounds": {"median": 2, "max": 4},
        "minutes": {"median": 9, "max": 13},
    }
    assert len(missed([cell])) == 2
    good = {
        **cell,
        "detected": interval(100, 100),
        "rounds": {"median": 2, "max": 2},
        "minutes": {"median": 9, "max": 10},
    }
    assert missed([good]) == []
