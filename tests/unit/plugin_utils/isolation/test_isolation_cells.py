"""The published figures: each has its own bound, a killed run goes on, the page prints what was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.isolation import table
from tests.isolation.__main__ import missed
from tests.isolation.campaign import Played, Server
from tests.isolation.cells import (
    MAIN,
    MAIN_FLEETS,
    Cell,
    Record,
    corner_cells,
    main_cells,
    play_all,
    play_fleets,
    sources_digest,
    without_comments,
)
from tests.isolation.faults import EITHER, HELD, PASSED, REJECTED
from tests.isolation.scores import Tally, at_most, shown


@pytest.mark.parametrize(
    ("hits", "total", "rate"),
    # Of no hits it is 1 - 0.05 ** (1 / total); the others are quantiles of beta distributions (95 % of hits + 1 and
    # total - hits), as any table has them.
    [(0, 3000, 0.000998), (0, 1, 0.95), (5, 10, 0.777559), (3, 3000, 0.002583), (10, 10, 1.0), (0, 250, 0.011911)],
)
def test_bound_is_clopper_and_pearsons(hits: int, total: int, rate: float) -> None:
    assert at_most(hits, total) == pytest.approx(rate, abs=1e-6)


def played(became: dict[str, str], expected: dict[str, str], steps: int = 2, minutes: float = 7.0) -> Played:
    return Played(became, expected, steps, minutes, 0.0, ())


@pytest.mark.parametrize(
    ("expected", "became", "failed"),
    [
        (REJECTED, REJECTED, []),
        (REJECTED, HELD, ["missed"]),
        (REJECTED, PASSED, ["missed", "wrongly_admitted"]),
        (HELD, HELD, []),
        (HELD, REJECTED, ["missed", "wrongly_rejected"]),
        (HELD, PASSED, ["missed", "wrongly_admitted"]),
        (EITHER, REJECTED, []),
        (EITHER, HELD, []),
        (EITHER, PASSED, ["missed", "wrongly_admitted"]),
        (None, PASSED, []),
        (None, HELD, ["held_innocents"]),
        (None, REJECTED, ["wrongly_rejected"]),
    ],
)
def test_scores_are_those_of_what_became_of_whom(expected: str | None, became: str, failed: list[str]) -> None:
    tally = Tally()
    tally.add(1, played({"h1": became, "h2": PASSED}, {"h1": expected} if expected else {}))
    assert sorted(tally.failed) == sorted(failed)


def test_figures_count_fleets_and_nodes_and_add_up() -> None:
    one, other = Tally(), Tally()
    for number in range(3):
        one.add(number, played({"h1": PASSED, "h2": PASSED}, {}))
    other.add(3, played({"h1": HELD, "h2": HELD, "h3": REJECTED}, {"h3": REJECTED}, 4, 13.5))
    one.merge(Tally.of(json.loads(json.dumps(other.counts()))))
    figures = one.figures()
    assert figures["held_innocents"] == {"fleets": 1, "nodes": 2, "rate": 0.25, "at_most": 0.751395}
    assert figures["detected"] == {"fleets": 4, "rate": 1.0, "at_least": 0.472871}
    assert figures["steps"] == {"median": 2, "max": 4, "beyond_at_most": 0.527129}
    assert (figures["minutes"]["median"], figures["minutes"]["max"]) == (7.0, 13.5)
    assert one.examples == ["seed 3: held_innocents h1, h2"]


CELLS = [Cell(4, "clean", 0.01, 5), Cell(4, "hang", 0.01, 4)]


def test_killed_run_goes_on_and_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.isolation.cells.CHUNK", 2)
    whole = Record.read(tmp_path / "whole.json", "digest")
    with Server() as server:
        for cell in CELLS:
            whole.tallies[cell.name] = play_fleets(server, cell, range(cell.fleets))
        # One that came to three fleets of the first cell before it was killed.
        partly = Record.read(tmp_path / "partly.json", "digest")
        partly.tallies[CELLS[0].name] = play_fleets(server, CELLS[0], range(3))
    partly.write(CELLS)
    again = Record.read(tmp_path / "partly.json", "digest")
    assert [(cell.name, first, end) for cell, first, end in again.left(CELLS)] == [
        (CELLS[0].name, 3, 5),
        (CELLS[1].name, 0, 2),
        (CELLS[1].name, 2, 4),
    ]
    assert play_all(again, CELLS, 2) == []
    assert again.write(CELLS)["cells"] == whole.write(CELLS)["cells"]
    assert list(Record.read(tmp_path / "partly.json", "digest").left(CELLS)) == []


def test_cell_whose_fleets_cannot_be_played_stops_no_other(tmp_path: Path) -> None:
    record, bad = Record.read(tmp_path / "record.json", "digest"), Cell(4, "no_such_fault", 0.01, 2)
    (said,) = play_all(record, [bad, Cell(4, "clean", 0.01, 1)], 1)
    assert said.startswith("4 no_such_fault noise 0.01 seed 7: before fleet 2: ")
    assert list(record.tallies) == ["4 clean noise 0.01 seed 7"]


def test_other_sources_count_for_nothing_until_they_come_back(tmp_path: Path) -> None:
    file, (cell, _hang) = tmp_path / "record.json", CELLS
    old = Record.read(file, "old")
    old.tallies[cell.name] = Tally(5, steps=Tally().steps)
    old.tallies[cell.name].steps["2"] = old.tallies[cell.name].minutes["7.00"] = 5
    old.write(CELLS)
    new = Record.read(file, "new")
    assert next(new.left(CELLS))[1:] == (0, 5)
    assert new.write(CELLS)["cells"] == []
    assert next(Record.read(file, "old").left(CELLS))[0].fault == "hang"


def test_digest_is_of_code_alone() -> None:
    assert without_comments('def f():\n    """Say."""\n    # Why.\n    return 1\n') == "def f():\n    return 1"
    assert sources_digest() == sources_digest()


def test_cells_are_those_that_were_asked_for_and_no_two_share_a_name() -> None:
    main, corners = main_cells(), corner_cells()
    assert {(cell.hosts, cell.fault) for cell in main} == {
        (hosts, fault) for hosts in (8, 32, 232) for fault in (*MAIN, "hang_spares")
    }
    assert all((cell.noise, cell.fleets, cell.main) == (0.01, MAIN_FLEETS, True) for cell in main)
    assert not any(cell.main for cell in corners)
    assert len({cell.name for cell in [*main, *corners]}) == len(main) + len(corners)


def described(cell: Cell, *fleets: Played) -> dict[str, Any]:
    tally = Tally()
    for number, each in enumerate(fleets):
        tally.add(number, each)
    return cell.described(tally)


RIGHT = played({"h1": REJECTED, "h2": PASSED}, {"h1": REJECTED})


@pytest.mark.parametrize(
    ("cell", "fleet", "said"),
    [
        (Cell(32, "one_slow_10", 0.01, 2), RIGHT, []),
        (Cell(32, "one_rail", 0.01, 2), played({"h1": PASSED}, {"h1": REJECTED}), ["wrongly_admitted in 1 of 2"]),
        (Cell(32, "one_rail", 0.03, 2), played({"h1": PASSED}, {"h1": REJECTED}), []),
        (Cell(32, "rare_5", 0.01, 2), played({"h1": PASSED}, {"h1": REJECTED}), []),
        (Cell(32, "clean", 0.01, 2), played({"h1": REJECTED}, {}), ["wrongly_rejected in 1 of 2"]),
        (
            Cell(32, "third_slow_10", 0.01, 2),
            played({"h1": PASSED}, {"h1": HELD}),
            ["wrongly_admitted in 1 of 2", "held in 1 of 2 fleets, expected all"],
        ),
        (Cell(8, "third_slow_10", 0.01, 2), played({"h1": PASSED}, {"h1": HELD}), []),
        (Cell(8, "hang", 0.01, 2), played({}, {}, steps=5), []),
        (Cell(8, "hang_spares", 0.01, 2), played({}, {}, steps=5), ["5 steps, expected at most 4"]),
    ],
)
def test_missed_target_is_told(cell: Cell, fleet: Played, said: Sequence[str]) -> None:
    found = missed([described(cell, RIGHT, fleet)])
    assert len(found) == len(said)
    for each, text in zip(found, said, strict=True):
        assert text in each
        assert each.startswith(f"{cell.fault} at {cell.hosts} hosts, noise 1.0%: ")


def test_clean_campaign_that_takes_longer_is_told() -> None:
    cell = Cell(232, "clean", 0.01, 1)
    assert missed([described(cell, played({}, {}, minutes=10.0))]) == []
    assert "10.5 minutes, expected at most 10" in missed([described(cell, played({}, {}, minutes=10.5))])[0]


def test_page_prints_what_was_measured() -> None:
    if not table.MEASURED.exists():
        pytest.skip("nothing is measured yet")
    page, measured = table.PAGE.read_text(), json.loads(table.MEASURED.read_text())
    assert table.page_with(page, measured) == page, "run: python -m tests.isolation --table build/isolation.json"


def test_table_has_each_bound_beside_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MEASURED", tmp_path / "measured.json")
    record = Record.read(tmp_path / "isolation.json", "digest")
    cells = [Cell(32, "one_slow_10", 0.01, 2), Cell(32, "rare_5", 0.01, 2), Cell(32, "two_hubs", 0.01, 2)]
    for cell in cells:
        tally = record.tallies[cell.name] = Tally()
        holding = played({"h1": REJECTED, "h2": HELD}, {"h1": REJECTED}, 3, 10.5)
        for seed, fleet in enumerate([RIGHT, RIGHT if cell.fault == "two_hubs" else holding]):
            tally.add(seed, fleet)
    record.write(cells)
    page = table.page_with(f"# Page\n\n{table.BEGIN}old\n{table.END}\nEnd\n", table.keep(record.file))
    assert page.startswith("# Page\n\n") and page.endswith(f"{table.END}\nEnd\n") and "old" not in page
    row = "| 32 | `one_slow_10` | 1.0% | 2 | all (>= 22.36%) | 0 (<= 77.64%) | 0 (<= 77.64%) | 1 (<= 97.47%), 1 nodes "
    assert f"{row}| 2, at most 3 | 7.0, at most 10.5 |" in page
    promised, _said, corners = page.partition("of which nothing is promised")
    assert ("`rare_5`" in promised, "`rare_5`" in corners) == (False, True)
    # Of a corner in which nothing went wrong the file alone has the figures.
    assert "in the other 1 nothing went wrong" in page
    assert "two_hubs" not in page
    assert json.loads((tmp_path / "measured.json").read_text())["cells"][2]["fault"] == "two_hubs"
    with pytest.raises(ValueError, match="expected both lines"):
        table.page_with("# Page\n", {"cells": []})


def test_terminal_shows_the_same_figures() -> None:
    text = shown([described(Cell(32, "one_slow_10", 0.01, 1), RIGHT)])
    assert "one_slow_10" in text
    assert "100.00% >  5.00%" in text
