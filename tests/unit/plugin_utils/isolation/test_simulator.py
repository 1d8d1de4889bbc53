"""The simulator keeps its truth to itself and shows what its faults say, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.isolation.__main__ import main
from tests.isolation.campaign import Server, play
from tests.isolation.faults import NAMED, Clock, Dead, Hangs, Slow, Tails, expectation_by_node
from tests.isolation.fleet import Fleet, Meets, Spec, as_json


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
    assert (one.became, one.expected, one.minutes) == (other.became, other.expected, other.minutes)
    assert third.expected


@pytest.mark.parametrize("fault", NAMED)
@pytest.mark.parametrize("hosts", [8, 32])
def test_every_fault_has_somebody_of_whom_it_is_true(hosts: int, fault: str) -> None:
    truth = Fleet(Spec.usual(hosts, fault, 0.01), 1).truth
    bad = bool(truth.bad or truth.held or truth.gone or truth.either)
    assert bad == (fault not in ("clean", "heavy_tail"))


@pytest.mark.parametrize("hosts", [8, 32, 48, 232])
def test_third_is_30_to_49_percent_in_every_way(hosts: int) -> None:
    ways = set()
    for seed in range(30):
        fleet = Fleet(Spec.usual(hosts, "third_slow_10", 0.01), seed)
        slow = np.array([node in fleet.truth.held for node in fleet.nodes])
        assert 0.3 * hosts <= slow.sum() <= 0.49 * hosts
        assert 0.85 <= fleet.speed.min() <= 0.9
        racks = {bool(slow[fleet.rack == rack].all()) for rack in fleet.rack[slow]}
        ways.add(racks == {True})
    assert ways == ({True, False} if hosts > 8 else {False})


def walk(steps: int, **more: Any) -> dict[str, Any]:
    return {"name": "walk", "kind": "pairs", "sizes": [268435456], "shifts": list(range(steps)), "seconds": 30, **more}


def times_of(fleet: Fleet, steps: int) -> Any:
    """Return nanoseconds by permutation, node and rail, and whom each node met."""
    (item,) = fleet.run({"groups": [fleet.nodes], "program": {"moves": [walk(steps)]}})
    met = Meets.of(walk(steps), np.arange(len(fleet.nodes))).met
    return np.array([result["ns"] for result in item["results"]]), met


QUIET = Spec(8, "quiet", 1e-6, rails=2, tail=0)


@pytest.mark.parametrize(
    ("fault", "slow"),
    [
        (Slow(("h3",), 0.2), lambda a, b, rail: 2 in (a, b)),
        (Slow(("h3",), 0.2, rails=(1,)), lambda a, b, rail: 2 in (a, b) and rail == 1),
        (Slow(("h3",), 0.2, to=("h5", "h6")), lambda a, b, rail: 2 in (a, b) and (4 in (a, b) or 5 in (a, b))),
        (Slow(("h3",), 0.2, to=("h5",), rails=(0,)), lambda a, b, rail: {a, b} == {2, 4} and rail == 0),
        (Slow(("h3",), 0.2, bytes=(65536,)), lambda a, b, rail: False),
        (Slow(("h3",), 0.2, operations=("all_gather",)), lambda a, b, rail: False),
    ],
)
def test_slow_shows_where_it_says_and_nowhere_else(fault: Slow, slow: Callable[[int, int, int], bool]) -> None:
    times, met = times_of(Fleet(QUIET, 1, [fault]), 7)
    usual, _met = times_of(Fleet(QUIET, 1, []), 7)
    for step, node, rail in np.ndindex(times.shape):
        factor = 1.25 if slow(node, int(met[step, node]), rail) else 1.0
        assert times[step, node, rail] == pytest.approx(factor * usual[step, node, rail], rel=1e-4)


def test_clock_counts_more_on_its_own_side_alone() -> None:
    times, _met = times_of(Fleet(QUIET, 1, [Clock(("h3",), 1.1)]), 7)
    usual, _met = times_of(Fleet(QUIET, 1, []), 7)
    ratio = np.median(times / usual, axis=(0, 2))
    assert ratio == pytest.approx([1.1 if node == 2 else 1.0 for node in range(8)], rel=1e-4)


def test_shares_are_those_of_exchanges() -> None:
    spec = Spec(64, "quiet", 1e-6, rails=1, tail=0)
    usual, met = times_of(Fleet(spec, 1, []), 63)
    tails, _met = times_of(Fleet(spec, 1, [Tails(0.1)]), 63)
    late = tails / usual > 1.1
    assert late.mean() == pytest.approx(0.1, abs=0.02)
    # Both sides of an exchange are late, as both wait for the same.
    assert (late == np.take_along_axis(late, met[..., None], axis=1)).all()
    rare, _met = times_of(Fleet(spec, 1, [Slow(("h05",), 0.2, when=0.3)]), 63)
    assert (rare[:, 4] / usual[:, 4] > 1.1).mean() == pytest.approx(0.3, abs=0.15)
    others = (np.arange(64)[None, :] != 4) & (met != 4)
    assert not (rare / usual > 1.1)[others].any()


def reached(*faults: Any, rails: int = 2) -> dict[str, Any]:
    fleet = Fleet(Spec(4, "hang", 0.01, rails=rails), 1, faults)
    inside = {"name": "inside", "kind": "inside", "sizes": [2**20], "seconds": 120}
    groups = {"name": "all", "kind": "groups", "collective": "all_reduce", "sizes": [8], "seconds": 120}
    moves = [inside, walk(3), {**groups, "groups": [[0, 1, 2, 3]]}]
    (item,) = fleet.run({"groups": [fleet.nodes], "program": {"moves": moves}})
    return item


def test_hang_shows_as_the_module_tells_it() -> None:
    assert reached()["ok"]
    absent = reached(Hangs(("h2",), after=1))
    assert (absent["ok"], absent["reached"]["h2"]) == (False, ["walk", 1, "absent"])
    assert {node: how for node, (_name, _step, how) in absent["reached"].items()} == {
        node: "absent" if node == "h2" else "arrived" for node in ("h1", "h2", "h3", "h4")
    }
    assert reached(Hangs(("h2",), after=1, shows="arrived"))["reached"]["h2"] == ["walk", 1, "arrived"]
    inside = reached(Hangs(("h2",), where="inside"))
    assert inside["reached"] == {"h2": ["inside", 0, "absent"]}
    assert {result["move"] for result in inside["results"]} == {"inside"}
    grouped = reached(Hangs(("h2",), where="groups"))
    assert grouped["reached"]["h2"] == ["all", 0, "absent"]
    assert grouped["reached"]["h1"] == ["all", 0, "arrived"]
    # Of two the later one may wait for the earlier one and then is as innocent as others.
    both = reached(Hangs(("h2",), after=0), Hangs(("h3",), after=2))["reached"]
    assert [how for _name, _step, how in both.values()].count("absent") == 1
    gone = reached(Dead(("h2",), after=1))
    assert (gone["missing"], gone["unavailable"]) == (["h2"], {"h2": "not responding"})


def test_what_should_become_of_a_node_with_several_faults_is_what_all_say() -> None:
    faults = [Slow(("h1", "h2"), 0.1), Slow(("h2",), 0.2, to=("h3",), expect="held", expect_to="held"), Tails(0.1)]
    assert expectation_by_node(faults) == {"h1": "rejected", "h2": "rejected_or_held", "h3": "held"}
    assert Fleet(QUIET, 1, faults).truth.either == ["h2"]


def test_observations_are_json_with_null_for_who_sits_out() -> None:
    fleet = Fleet(Spec.usual(5, "clean", 0.01), 1)
    phase = {"name": "walk", "kind": "pairs", "sizes": [65536], "shifts": [0], "seconds": 30}
    (item,) = fleet.run({"groups": [fleet.nodes], "program": {"moves": [phase]}})
    rows = json.loads(json.dumps(as_json(item)))["results"][0]["ns"]
    assert sum(row is None for row in rows) == 1
    assert all(isinstance(value, int) for row in rows if row for value in row)


def test_spares_are_partners_and_have_no_fault() -> None:
    spec = Spec.usual(8, "hang_spares", 0.01)
    assert (spec.spares, len(spec.layout().nodes)) == (4, 8)
    for seed in range(5):
        fleet = Fleet(spec, seed)
        assert len(fleet.nodes) == len(fleet.places()) == 12
        assert set(fleet.truth.bad) < set(fleet.nodes[:8])


def test_command_prints_and_writes_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cells.json"
    arguments = ["--hosts", "8", "--fault", "clean,one_pair", "--noise", "0.01", "--fleets", "2", "--out", str(out)]
    assert main(arguments) == 0
    cells = json.loads(out.read_text(encoding="utf-8"))["cells"]
    assert [(cell["hosts"], cell["fault"], cell["noise"], cell["fleets"]) for cell in cells] == [
        (8, "clean", 0.01, 2),
        (8, "one_pair", 0.01, 2),
    ]
    for cell in cells:
        assert set(cell["detected"]) == {"fleets", "rate", "at_least"}
        for name in ("wrongly_admitted", "wrongly_rejected", "held_innocents"):
            assert set(cell[name]) == {"fleets", "nodes", "rate", "at_most"}
        assert all(set(cell[key]) == {"median", "max", "beyond_at_most"} for key in ("steps", "minutes"))
    assert "one_pair" in capsys.readouterr().out


def test_command_names_an_unknown_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--fault", "one_slow_11"])
    assert "--fault: found one_slow_11, expected some of clean, one_slow_10" in capsys.readouterr().err
